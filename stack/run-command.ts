import { spawn } from 'node:child_process'
import { inheritedEnvironment } from './host.ts'

export interface CommandResult {
  code: number | null
  /** Standard output and standard error, in the order they came. */
  output: string
  stdout: string
}

export interface CommandOptions {
  /** The whole environment; without it, what any program needs to work (see host.ts). */
  env?: Record<string, string>
  cwd?: string
  uid?: number
  gid?: number
  timeoutMs?: number
}

/** Runs a program to its end and collects what it said. Never throws for its exit code. */
export async function runCommand(
  command: string,
  args: string[],
  options: CommandOptions = {},
): Promise<CommandResult> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd: options.cwd ?? '/',
      env: options.env ?? inheritedEnvironment(),
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: options.timeoutMs ?? 600_000,
      killSignal: 'SIGKILL',
      ...(options.uid === undefined ? {} : { uid: options.uid }),
      ...(options.gid === undefined ? {} : { gid: options.gid }),
    })
    let output = ''
    let stdout = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8')
      stream.on('data', (text: string) => {
        output += text
        if (stream === child.stdout) stdout += text
      })
    }
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, output, stdout }))
  })
}

import type { Child, Exit } from './child.ts'
import { signalTree } from './process.ts'

/** What a running part of a stack looks like, whichever program it is. */
export type Started = Child & { url: string }

export interface UnexpectedEnd {
  name: string
  exit: Exit
  /** The end of the part's log. */
  tail: string
}

/**
 * One program of a stack, with its handles for drills. It keeps its address over restarts: the others hold it.
 */
export class Part {
  readonly name: string
  readonly #start: (port: number | undefined, env: Record<string, string>) => Promise<Started>
  readonly #report: (end: UnexpectedEnd) => void
  /** Those whose end somebody asked for: it is no news. */
  readonly #asked = new WeakSet<Started>()
  #current: Started | undefined
  #env: Record<string, string> = {}

  constructor(
    name: string,
    start: (port: number | undefined, env: Record<string, string>) => Promise<Started>,
    report: (end: UnexpectedEnd) => void,
  ) {
    this.name = name
    this.#start = start
    this.#report = report
  }

  get #running(): Started {
    if (!this.#current) throw new Error(`${this.name} was never started`)
    return this.#current
  }

  get url(): string {
    return this.#running.url
  }

  get pid(): number {
    return this.#running.pid
  }

  get logFile(): string {
    return this.#running.logFile
  }

  running(): boolean {
    return this.#current?.running() === true
  }

  /** Starts it; on the address it had, when it ran before. `env` goes over what it was given last time. */
  async start(env: Record<string, string> = {}): Promise<void> {
    const port = this.#current ? Number(new URL(this.#current.url).port) : undefined
    this.#env = { ...this.#env, ...env }
    const started = await this.#start(port, this.#env)
    if (port !== undefined && Number(new URL(started.url).port) !== port) {
      await started.kill()
      throw new Error(`${this.name} can't come back: its port ${port} was taken while it was down`)
    }
    this.#current = started
    void started.exited.then((exit) => {
      if (!this.#asked.has(started)) this.#report({ name: this.name, exit, tail: started.tail() })
    })
  }

  /** Asks it to end in an orderly way and waits. */
  async stop(): Promise<void> {
    if (!this.#current) return
    // A paused process takes the signal only once it goes on.
    if (this.#current.running()) this.resume()
    this.#asked.add(this.#current)
    await this.#current.stop()
  }

  /** Ends it at once (SIGKILL to it and its helpers) and waits. */
  async kill(): Promise<void> {
    this.#asked.add(this.#running)
    await this.#running.kill()
  }

  /** Ends it in an orderly way if it runs, and starts it again on the same address. */
  async restart(env: Record<string, string> = {}): Promise<void> {
    await this.stop()
    await this.start(env)
  }

  /** Stops it and its helpers in their tracks without ending them (SIGSTOP), as a machine that hangs would. */
  pause(): void {
    signalTree(this.#running.pid, 'SIGSTOP')
  }

  /** Lets a paused part go on. */
  resume(): void {
    signalTree(this.#running.pid, 'SIGCONT')
  }
}

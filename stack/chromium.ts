import { findProgram } from './host.ts'
import { type CommandResult, runCommand } from './run-command.ts'

const HOW_TO =
  'Install Chromium (Debian: apt install chromium; Ubuntu: a .deb of Google Chrome; macOS: Google Chrome) or set TEST_CHROMIUM_BIN to its program.'

const NAMES = ['chromium', 'google-chrome', 'google-chrome-stable', 'chromium-browser']
const MAC = '/Applications/Google Chrome.app/Contents/MacOS'

/** Flags for a browser in a container that talks to nobody but the page. */
export const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/**
 * Gives the path of a Chromium: an installed one, else one installed through apt (as root, or with sudo where
 * that asks for no password).
 * @throws when there is none and none can be installed, with what to do.
 */
export async function ensureChromium(progress?: (line: string) => void): Promise<string> {
  const found = await findChromium()
  if (found) return found
  const apt = findProgram(['apt-get'])
  const sudo = process.getuid?.() === 0 ? [] : await passwordlessSudo()
  if (!apt || !sudo)
    throw new Error(`There is no Chromium here, and it can't be installed without root. ${HOW_TO}`)
  progress?.('Installing Chromium through apt (once; a minute or two)')
  const common = ['-q', '-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3']
  const env = ['env', 'DEBIAN_FRONTEND=noninteractive']
  const run = async (...args: string[]): Promise<CommandResult> => {
    const [command, ...rest] = [...sudo, ...env, apt, ...common, ...args] as [string, ...string[]]
    return runCommand(command, rest, { timeoutMs: 900_000 })
  }
  const update = await run('update')
  const result =
    update.code === 0 ? await run('install', '-y', '--no-install-recommends', 'chromium') : update
  const program = await findChromium()
  if (program) return program
  const last = result.output.trim().split('\n').slice(-3).join(' ')
  throw new Error(`apt could not install Chromium (${result.code}): ${last} ${HOW_TO}`)
}

/** A browser that really runs: Ubuntu's `chromium-browser` may be a script that only asks for snap. */
async function findChromium(): Promise<string | undefined> {
  for (const name of NAMES) {
    const file = findProgram([name])
    if (file && (await runCommand(file, ['--version'], { timeoutMs: 30_000 })).code === 0) return file
  }
  return findProgram(['Google Chrome'], [MAC])
}

async function passwordlessSudo(): Promise<string[] | undefined> {
  const sudo = findProgram(['sudo'])
  if (!sudo) return undefined
  return (await runCommand(sudo, ['-n', 'true'])).code === 0 ? [sudo, '-n'] : undefined
}

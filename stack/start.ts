import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Demo, type DemoOptions, demoCampaign } from './demo.ts'
import type { UnexpectedEnd } from './part.ts'
import { makeRestarter } from './restarts.ts'
import { type External, type PartName, type Stack, type StackOptions, startStack } from './stack.ts'

/**
 * `npm start`: the whole system with a demo campaign, until Ctrl-C. Composition root of the supervisor process.
 */

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DEMO_LOGIN_S = 7 * 86_400
const DEMO_USERS = ['ada', 'ben']

/** Ports tried first, so that addresses stay the same from start to start; below those given out by the kernel. */
const PREFERRED: Partial<Record<PartName, number>> = { edge: 8787, core: 8788, gateway: 8789 }

const HELP = `npm start [-- options]
  --opens-in S   make a new demo campaign that opens in S seconds
  --quota N      make a new demo campaign with N coupons (1000)
  --new          make a new demo campaign, even if the former one is still open
Settings come from the environment or a file .env, see .env.example.`

interface Settings {
  /** Where everything is kept. */
  dir: string
  external: External
  ports: NonNullable<StackOptions['ports']>
  logLevel: string | undefined
  metricsToken: string | undefined
  parentPid: number | undefined
}

function externalFrom(env: NodeJS.ProcessEnv): External {
  const url = env['UPSTASH_REDIS_REST_URL'] || undefined
  const token = env['UPSTASH_REDIS_REST_TOKEN'] || undefined
  const redisUrl = env['REDIS_URL'] || undefined
  if ((url === undefined) !== (token === undefined))
    throw new Error('Set both UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN, or neither.')
  if (url && !redisUrl)
    throw new Error(
      'With UPSTASH_REDIS_REST_URL, set REDIS_URL too: the TCP address (rediss://…) of the same database, which the core needs.',
    )
  const upstash = url && token ? { url, token } : undefined
  return { databaseUrl: env['DATABASE_URL'] || undefined, redisUrl, upstash }
}

function portsFrom(env: NodeJS.ProcessEnv): Settings['ports'] {
  const ports: Settings['ports'] = {}
  for (const name of ['edge', 'core', 'gateway', 'redis', 'postgres'] as const) {
    const setting = `${name.toUpperCase()}_PORT`
    const text = env[setting] || undefined
    const preferred = PREFERRED[name]
    if (text !== undefined && !/^\d{1,5}$/.test(text))
      throw new Error(`${setting} must be a port number, or 0 for any free one.`)
    if (Number(text) > 0) ports[name] = { required: Number(text), setting }
    else if (text === undefined && preferred !== undefined) ports[name] = { preferred: [preferred] }
  }
  return ports
}

function readSettings(): Settings {
  const file = join(ROOT, '.env')
  if (existsSync(file)) process.loadEnvFile(file)
  const env = process.env
  return {
    dir: resolve(ROOT, env['TIDEGATE_DIR'] || '.tidegate'),
    external: externalFrom(env),
    ports: portsFrom(env),
    logLevel: env['LOG_LEVEL'] || undefined,
    metricsToken: env['METRICS_TOKEN'] || undefined,
    parentPid: Number(env['TIDEGATE_PARENT_PID']) || undefined,
  }
}

function readArguments(): DemoOptions {
  const { values } = parseArgs({
    options: {
      'opens-in': { type: 'string' },
      quota: { type: 'string' },
      new: { type: 'boolean' },
      help: { type: 'boolean' },
    },
  })
  if (values.help) {
    console.log(HELP)
    process.exit(0)
  }
  const whole = (text: string | undefined, fallback: number, name: string): number => {
    if (text === undefined) return fallback
    if (!/^\d{1,8}$/.test(text)) throw new Error(`--${name} must be a whole number.\n${HELP}`)
    return Number(text)
  }
  return {
    opensInS: whole(values['opens-in'], 0, 'opens-in'),
    quota: whole(values.quota, 1000, 'quota'),
    fresh: values.new === true || values['opens-in'] !== undefined || values.quota !== undefined,
  }
}

function endpointsFile(dir: string): string {
  return join(dir, 'endpoints.json')
}

interface DemoLogin {
  user: string
  token: string
  page: string
}

async function demoLogins(stack: Stack, campaignId: string): Promise<DemoLogin[]> {
  return Promise.all(
    DEMO_USERS.map(async (user) => {
      const token = await stack.mintLogin({ user, ttl_s: DEMO_LOGIN_S })
      return { user, token, page: `${stack.endpoints.edge}/c/${campaignId}#login=${token}` }
    }),
  )
}

/** Written anew after every restart of a part; whole or not at all, and readable by its owner only: it has logins. */
function writeEndpoints(stack: Stack, demo: Demo, logins: DemoLogin[], external: External): void {
  const { endpoints, parts, keys } = stack
  const running = Object.entries(parts).filter(([, part]) => part.running())
  const content = {
    ...endpoints,
    campaign_id: demo.campaignId,
    campaign_page: `${endpoints.edge}/c/${demo.campaignId}`,
    docs: `${endpoints.core}/docs`,
    gateway_token: external.upstash ? undefined : keys.gatewayToken,
    logins,
    pids: { supervisor: process.pid, ...Object.fromEntries(running.map(([name, part]) => [name, part.pid])) },
  }
  const file = endpointsFile(stack.dir)
  const temporary = `${file}.new`
  writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
  renameSync(temporary, file)
}

function summary(stack: Stack, demo: Demo, logins: DemoLogin[], seconds: string): string {
  const { endpoints } = stack
  const near = relative(ROOT, stack.dir)
  const place = near.startsWith('..') ? stack.dir : near
  return [
    '',
    `Tidegate is ready (${seconds} s).`,
    '',
    `  Campaign page  ${endpoints.edge}/c/${demo.campaignId}${demo.reused ? '  (of an earlier start)' : ''}`,
    ...logins.map(({ user, page }) => `  as ${user.padEnd(10)}  ${page}`),
    `  API docs       ${endpoints.core}/docs`,
    `  Edge           ${endpoints.edge}`,
    `  Core           ${endpoints.core}`,
    '',
    `All addresses, logins and process ids are in ${place}/endpoints.json; logs are in ${place}/*.log.`,
    'A campaign that opens in a minute: npm start -- --opens-in 60',
    `Ctrl-C stops everything; data stay in ${place}.`,
  ].join('\n')
}

/** Stops once, at the first signal; a second one, a while later, stops at once (the guard ends the children). */
function stopOnSignals(stop: (code: number) => Promise<void>, parentPid: number | undefined): void {
  let first: number | undefined
  const ask = (why: string) => {
    if (first === undefined) {
      first = performance.now()
      console.log(`\nStopping (${why})`)
      void stop(0)
      // A terminal's Ctrl-C reaches us twice: from the terminal, and forwarded by npm.
    } else if (performance.now() - first > 1_000) process.exit(130)
  }
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => ask(name))
  if (parentPid === undefined) return
  setInterval(() => process.ppid === parentPid || ask('the process that started this one ended'), 500).unref()
}

async function main(): Promise<void> {
  const began = performance.now()
  const seconds = () => ((performance.now() - began) / 1000).toFixed(1)
  const say = (line: string) => console.log(`[${seconds().padStart(5)} s] ${line}`)
  const demoOptions = readArguments()
  const { dir, external, ports, logLevel, metricsToken, parentPid } = readSettings()

  let stack: Stack | undefined
  let onEnd: ((end: UnexpectedEnd) => void) | undefined
  const stop = async (code: number) => {
    if (stack) rmSync(endpointsFile(dir), { force: true })
    await stack?.stop()
    process.exit(code)
  }
  stopOnSignals(stop, parentPid)

  stack = await startStack({
    dir,
    external,
    ports,
    env: {
      core: { LOG_LEVEL: logLevel ?? 'info' },
      edge: metricsToken ? { METRICS_TOKEN: metricsToken } : {},
    },
    progress: say,
    onUnexpectedEnd: (end) => onEnd?.(end),
  })
  say('Preparing the demo campaign')
  const demo = await demoCampaign(stack, demoOptions)
  const logins = await demoLogins(stack, demo.campaignId)
  const current = stack
  const write = () => writeEndpoints(current, demo, logins, external)
  onEnd = makeRestarter({
    stack: current,
    say,
    onRestarted: write,
    onGivenUp(name) {
      say(`${name} does not stay up. Stopping; its log is ${current.part(name as PartName).logFile}`)
      void stop(1)
    },
  })
  write()
  console.log(summary(current, demo, logins, seconds()))
}

await main().catch((error: Error) => {
  console.error(error.message)
  process.exit(1)
})

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isCampaignVerb } from '../campaigns/permissions.ts'
import type { CampaignAnswer } from '../campaigns/shapes.ts'
import { type Role, roles } from '../http/identity.ts'
import { archive } from './archive.ts'
import { verifyRecord } from './ballot.ts'
import { type AmendPath, type Client, makeClient } from './client.ts'
import { demoCampaign } from './demo.ts'
import { exitCodes, OpsError } from './errors.ts'
import { mintLocalLogin } from './localLogin.ts'
import { verifyReceipt } from './receipt.ts'
import { presentReceipt, rebuild } from './recovery.ts'
import { reviews } from './reviews.ts'
import { usage } from './usage.ts'
import { needed, secondsOf, whole } from './values.ts'

/** What the CLI is given by its process. */
export interface OpsIo {
  env: Readonly<Record<string, string | undefined>>
  /** The local stack's folder. */
  home: string
  out(line: string): void
  err(line: string): void
  readStdin(): string
}

const options = {
  help: { type: 'boolean', short: 'h' },
  json: { type: 'boolean' },
  core: { type: 'string' },
  token: { type: 'string' },
  key: { type: 'string' },
  version: { type: 'string' },
  reason: { type: 'string' },
  file: { type: 'string' },
  user: { type: 'string' },
  role: { type: 'string' },
  ttl: { type: 'string' },
  limit: { type: 'string' },
  cursor: { type: 'string' },
  target: { type: 'string' },
  'dry-run': { type: 'boolean' },
  force: { type: 'boolean' },
  quota: { type: 'string' },
  hours: { type: 'string' },
  name: { type: 'string' },
  campaign: { type: 'string' },
  receipt: { type: 'string' },
  amount: { type: 'string' },
  pace: { type: 'string' },
  burst: { type: 'string' },
  'opens-in': { type: 'string' },
  folder: { type: 'string' },
  until: { type: 'string' },
} as const
type Values = ReturnType<typeof parse>['values']

interface Call {
  io: OpsIo
  words: string[]
  values: Values
}

/** Runs one call; its result is the last line. @returns the exit code */
export async function runOps(argv: readonly string[], io: OpsIo): Promise<number> {
  try {
    const { values, positionals } = parse(argv)
    if (values.help || positionals[0] === 'help') {
      io.out(usage)
      return 0
    }
    await dispatch({ io, values, words: positionals })
    return 0
  } catch (error) {
    if (!(error instanceof OpsError)) throw error
    io.err(error.message)
    if (error.failure === 'usage') io.err('See npm run ops -- --help')
    return exitCodes[error.failure]
  }
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new OpsError('usage', (error as Error).message)
  }
}

async function dispatch(call: Call): Promise<void> {
  const [command, second, third] = call.words
  switch (command) {
    case 'token':
      return printToken(call)
    case 'campaign':
      return campaign(call, second, third)
    case 'inventory':
      return show(
        call,
        `/admin/v1/campaigns/${encodeURIComponent(needed(second, 'the campaign’s id'))}/inventory`,
      )
    case 'audit':
      return show(call, `/admin/v1/audit${query(call.values, ['target', 'limit', 'cursor'])}`)
    case 'ballot':
      return ballot(call, second, third)
    case 'leases':
      return show(call, '/admin/v1/leases')
    case 'rebuild':
      return rebuild(clientOf(call), {
        ...{ dryRun: call.values['dry-run'] ?? false, force: call.values.force ?? false },
        ...{ reason: call.values.reason, json: call.values.json ?? false, out: call.io.out },
        campaignId: needed(call.values.campaign ?? second, '--campaign'),
      })
    case 'receipt':
      if (second === 'verify') return print(call, verifyReceipt(call.values.receipt, call.io))
      return presentReceipt(clientOf(call), needed(second, 'the receipt'), call.io.out)
    case 'reviews':
    case 'dead-letters':
      return print(
        call,
        await reviews(clientOf(call), {
          ...{ queue: command, verb: second, id: third, reason: call.values.reason },
          query: query(call.values, ['limit', 'cursor']),
        }),
      )
    case 'archive':
      return print(call, await archive(second, call.values, call.io.env['DATABASE_URL']))
    case 'demo':
      return demo(call)
    default:
      throw new OpsError('usage', command === undefined ? usage : `There is no command ${command}.`)
  }
}

async function printToken({ io, values }: Call): Promise<void> {
  const role = roles.find((known) => known === values.role)
  if (values.role !== undefined && role === undefined)
    throw new OpsError('usage', `--role is one of ${roles.join(', ')}.`)
  const token = await mintLocalLogin(join(io.home, 'keys.json'), {
    user: needed(values.user, '--user'),
    role,
    ttlS: secondsOf(values.ttl ?? '24h'),
  })
  io.out(values.json ? JSON.stringify({ token }) : token)
}

async function campaign(call: Call, verb: string | undefined, id: string | undefined): Promise<void> {
  const { io, values } = call
  const client = clientOf(call)
  if (verb === 'create') return printCampaign(call, await client.create(readJson(io, values.file)))
  if (verb === 'list') return list(call, client)
  if (verb === 'increase') {
    const body = { amount: whole(needed(values.amount, '--amount'), '--amount'), reason: values.reason }
    return printCampaign(call, await amend(call, 'increases', id, body, 'approver'))
  }
  if (verb === 'pace') {
    const perSecond = needed(values.pace, '--pace (a number per second, or none)')
    const burst = values.burst ?? perSecond
    const pace =
      perSecond === 'none' ? null : { per_second: whole(perSecond, '--pace'), burst: whole(burst, '--burst') }
    return printCampaign(call, await amend(call, 'pace', id, { pace, reason: values.reason }, 'operator'))
  }
  const path = `/admin/v1/campaigns/${encodeURIComponent(id ?? '')}`
  if (verb === 'show') {
    needed(id, 'the campaign’s id')
    return printCampaign(call, await client.read<CampaignAnswer>(path))
  }
  if (verb === undefined || !isCampaignVerb(verb))
    throw new OpsError('usage', `There is no command campaign ${verb ?? ''}.`)
  const version = values.version === undefined ? undefined : whole(values.version, '--version')
  const answer = await client.command(verb, needed(id, 'the campaign’s id'), {
    reason: values.reason,
    version,
  })
  printCampaign(call, answer)
}

function amend(call: Call, path: AmendPath, id: string | undefined, body: object, role: Role) {
  const { version } = call.values
  return clientOf(call).amend(path, needed(id, 'the campaign’s id'), {
    role,
    body,
    version: version === undefined ? undefined : whole(version, '--version'),
  })
}

async function ballot(call: Call, verb: string | undefined, id: string | undefined): Promise<void> {
  const { io, values } = call
  if (verb === 'draw')
    return printCampaign(call, await amend(call, 'draw', id, { reason: values.reason }, 'operator'))
  if (verb !== 'verify') throw new OpsError('usage', `There is no command ballot ${verb ?? ''}.`)
  const record =
    values.campaign === undefined
      ? readJson(io, values.file)
      : await clientOf(call).show(`/v1/campaigns/${encodeURIComponent(values.campaign)}/ballot`)
  const { entrants, winners } = verifyRecord(record)
  if (values.json) io.out(JSON.stringify({ holds: true, entrants, winners }))
  else io.out(`The draw holds: ${winners} winners of ${entrants} entrants follow from the published seed.`)
}

async function list(call: Call, client: Client): Promise<void> {
  const page = await client.read<{ data: CampaignAnswer[]; next_cursor: string | null }>(
    `/admin/v1/campaigns${query(call.values, ['limit', 'cursor'])}`,
  )
  if (call.values.json) return call.io.out(JSON.stringify(page))
  for (const item of page.data) call.io.out(lineOf(item))
  call.io.out(
    page.next_cursor === null ? `${page.data.length} shown, no more` : `more: --cursor ${page.next_cursor}`,
  )
}

async function show(call: Call, path: string): Promise<void> {
  print(call, await clientOf(call).read<unknown>(path))
}

function print({ io, values }: Call, answer: unknown): void {
  io.out(JSON.stringify(answer, null, values.json ? 0 : 2))
}

async function demo(call: Call): Promise<void> {
  const { values, io } = call
  const client = clientOf(call)
  const draft = await client.create(
    demoCampaign({
      name: values.name ?? 'Demo campaign',
      quota: whole(values.quota ?? '1000', '--quota'),
      perUserLimit: whole(values.limit ?? '1', '--limit'),
      opensInS: whole(values['opens-in'] ?? '0', '--opens-in'),
      hours: whole(values.hours ?? '168', '--hours'),
      nowMs: Date.now(),
    }),
  )
  let answer = draft
  for (const verb of ['submit', 'approve', 'publish'] as const) {
    if (!values.json) io.out(`${lineOf(answer)} → ${verb}`)
    answer = await client.command(verb, draft.id, { reason: 'demo' })
  }
  if (values.json) io.out(JSON.stringify({ campaign_id: answer.id, ...answer }))
  else io.out(lineOf(answer))
}

function printCampaign({ io, values }: Call, answer: CampaignAnswer): void {
  io.out(values.json ? JSON.stringify(answer) : lineOf(answer))
}

function lineOf({ id, state, version, quota, starts_at, ends_at, name, gates }: CampaignAnswer): string {
  const told = gates === undefined ? '' : ` gates=${gates.reached}/${gates.buckets}`
  return `${id} ${state} v${version} quota=${quota}${told} ${starts_at}…${ends_at} ${name}`
}

function clientOf({ io, values }: Call): Client {
  const given = values.token ?? io.env['TIDEGATE_TOKEN']
  return makeClient({
    core: coreOf(io, values.core),
    key: values.key,
    login: async (role: Role) =>
      given ?? mintLocalLogin(join(io.home, 'keys.json'), { user: `local-${role}`, role, ttlS: 300 }),
  })
}

function coreOf(io: OpsIo, given: string | undefined): string {
  const url = given ?? io.env['TIDEGATE_CORE_URL'] ?? localCore(io.home)
  if (!URL.canParse(url)) throw new OpsError('usage', 'The core’s address is no URL: give http://host:port.')
  return url.replace(/\/+$/, '')
}

function localCore(home: string): string {
  try {
    const { core } = JSON.parse(readFileSync(join(home, 'endpoints.json'), 'utf8')) as { core?: string }
    if (core) return core
  } catch {
    // Told below: there is no local stack.
  }
  throw new OpsError(
    'usage',
    'No local stack is running. Run npm start, or give --core or TIDEGATE_CORE_URL.',
  )
}

function readJson(io: OpsIo, file: string | undefined): unknown {
  const from = needed(file, '--file')
  let content: string
  try {
    content = from === '-' ? io.readStdin() : readFileSync(from, 'utf8')
  } catch (error) {
    throw new OpsError('usage', `${from} can’t be read: ${(error as Error).message}`)
  }
  try {
    return JSON.parse(content)
  } catch (error) {
    throw new OpsError('usage', `${from} is not JSON: ${(error as Error).message}`)
  }
}

function query(values: Values, names: ('limit' | 'cursor' | 'target')[]): string {
  const given = names.flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]]))
  return given.length === 0 ? '' : `?${new URLSearchParams(given as [string, string][])}`
}

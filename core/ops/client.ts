import { randomUUID } from 'node:crypto'
import type { CampaignVerb } from '../campaigns/permissions.ts'
import type { CampaignAnswer } from '../campaigns/shapes.ts'
import type { Role } from '../http/identity.ts'
import { OpsError } from './errors.ts'

/** The core's public admin API, as the CLI uses it. */
export interface Client {
  create(campaign: unknown): Promise<CampaignAnswer>
  /** Acts on the version given, or on the present one. */
  command(
    verb: CampaignVerb,
    id: string,
    options: { reason?: string | undefined; version?: number | undefined },
  ): Promise<CampaignAnswer>
  /** A change that is no state, or a ballot's draw; on the version given, or on the present one. */
  amend(
    path: AmendPath,
    id: string,
    options: { role: Role; body: object; version: number | undefined },
  ): Promise<CampaignAnswer>
  /** Any public path, without a login. */
  show(path: string): Promise<unknown>
  /** Any command that makes no use of a version. */
  post<T>(role: Role, path: string, body: unknown): Promise<T>
  /** Any reading path. */
  read<T>(path: string): Promise<T>
}

export type AmendPath = 'increases' | 'pace' | 'draw'

export interface ClientOptions {
  core: string
  /** A login that may act in this role. */
  login(role: Role): Promise<string>
  /** Undefined: a new one for each command. */
  key: string | undefined
}

/** Longer than the core takes for any command of ours. */
const timeoutMs = 15_000

/** Verbs of the approver; the others are the operator's. */
const roleOf = (verb: CampaignVerb): Role =>
  verb === 'approve' || verb === 'reject' || verb === 'void' ? 'approver' : 'operator'

export function makeClient({ core, login, key }: ClientOptions): Client {
  async function call<T>(
    role: Role,
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ) {
    const authorization = { Authorization: `Bearer ${await login(role)}` }
    const response = await send(`${core}${path}`, {
      method,
      headers: {
        ...authorization,
        ...headers,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    return { answer: (await bodyOf(response)) as T, etag: response.headers.get('ETag') }
  }
  const newKey = () => ({ 'Idempotency-Key': key ?? randomUUID() })

  return {
    async create(campaign) {
      return (await call<CampaignAnswer>('operator', 'POST', '/admin/v1/campaigns', campaign, newKey()))
        .answer
    },
    async command(verb, id, { reason, version }) {
      const path = `/admin/v1/campaigns/${encodeURIComponent(id)}`
      const etag = version === undefined ? (await call(roleOf(verb), 'GET', path)).etag : `"${version}"`
      const headers = { ...newKey(), 'If-Match': etag ?? '' }
      const body = reason === undefined ? undefined : { reason }
      return (await call<CampaignAnswer>(roleOf(verb), 'POST', `${path}/${verb}`, body, headers)).answer
    },
    async amend(path, id, { role, body, version }) {
      const campaign = `/admin/v1/campaigns/${encodeURIComponent(id)}`
      const etag = version === undefined ? (await call(role, 'GET', campaign)).etag : `"${version}"`
      const headers = { ...newKey(), 'If-Match': etag ?? '' }
      return (await call<CampaignAnswer>(role, 'POST', `${campaign}/${path}`, body, headers)).answer
    },
    async show(path) {
      return bodyOf(await send(`${core}${path}`, { signal: AbortSignal.timeout(timeoutMs) }))
    },
    async post<T>(role: Role, path: string, body: unknown) {
      return (await call<T>(role, 'POST', path, body, newKey())).answer
    },
    async read<T>(path: string) {
      return (await call<T>('operator', 'GET', path)).answer
    },
  }
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init)
  } catch (error) {
    const cause = (error as { cause?: { code?: string } }).cause?.code ?? (error as Error).message
    throw new OpsError(
      'no answer',
      `The core at ${new URL(url).origin} does not answer (${cause}). Is it running? A command may be repeated with its --key.`,
    )
  }
}

/** @throws OpsError with the problem's code and sentence. */
async function bodyOf(response: Response): Promise<unknown> {
  let body: { code?: string; detail?: string; errors?: { path: string; message: string }[] }
  try {
    body = (await response.json()) as typeof body
  } catch {
    throw new OpsError('no answer', `HTTP ${response.status} without JSON: is this the core's address?`)
  }
  if (response.ok) return body
  const faults = (body.errors ?? []).map(({ path, message }) => `\n  ${path || '(body)'}: ${message}`)
  throw new OpsError('refused', `${body.code ?? response.status}: ${body.detail ?? ''}${faults.join('')}`)
}

import { setTimeout as pause } from 'node:timers/promises'
import type { Stack } from '../../stack/stack.ts'

const attemptsMax = 8
const againMs = 500

export interface CampaignWish {
  name: string
  quota: number
  perUserLimit?: number
  startsAtMs: number
  endsAtMs: number
  bucketCount?: number
  /** The Redis deployment with its gates; the one with the fewest campaigns unless given. */
  store?: string
  /** What becomes of claims that are accepted and not delivered when it is paused or voided. */
  inFlight?: 'continue' | 'cancel'
}

/** Creates, submits, approves and publishes a campaign through the admin API, as two people would. */
export async function openCampaign(stack: Stack, wish: CampaignWish): Promise<string> {
  const operator = await stack.mintLogin({ user: 'loadtest-operator', role: 'operator' })
  const approver = await stack.mintLogin({ user: 'loadtest-approver', role: 'approver' })
  const created = await call(stack, operator, 'POST', '/admin/v1/campaigns', {
    name: wish.name,
    mode: 'first_come',
    quota: wish.quota,
    per_user_limit: wish.perUserLimit ?? 1,
    starts_at: new Date(wish.startsAtMs).toISOString(),
    ends_at: new Date(wish.endsAtMs).toISOString(),
    time_zone: 'Asia/Shanghai',
    ...(wish.bucketCount === undefined ? {} : { bucket_count: wish.bucketCount }),
    ...(wish.store === undefined ? {} : { store: wish.store }),
    rules: {
      benefit: {
        kind: 'amount_off',
        amount: { currency: 'CNY', minor: '2000' },
        threshold: { currency: 'CNY', minor: '10000' },
      },
      validity: { kind: 'days', days: 7 },
      in_flight: wish.inFlight ?? 'continue',
    },
  })
  const id = created.body['id'] as string
  let etag = created.etag
  for (const [verb, login] of [
    ['submit', operator],
    ['approve', approver],
    ['publish', operator],
  ] as const) {
    const answer = await call(stack, login, 'POST', `/admin/v1/campaigns/${id}/${verb}`, {}, etag)
    etag = answer.etag
  }
  return id
}

/** Pauses or resumes it, as an operator would. @returns when the last gate had it, ms by the core's clock. */
export async function commandCampaign(stack: Stack, id: string, verb: 'pause' | 'resume'): Promise<number> {
  const operator = await stack.mintLogin({ user: 'loadtest-operator', role: 'operator' })
  const { etag } = await call(stack, operator, 'GET', `/admin/v1/campaigns/${id}`)
  const { body } = await call(stack, operator, 'POST', `/admin/v1/campaigns/${id}/${verb}`, {}, etag)
  const { gates } = body as { gates?: { reached_at: string | null } }
  if (!gates?.reached_at) throw new Error(`${verb}: not every gate was told`)
  return Date.parse(gates.reached_at)
}

async function call(
  stack: Stack,
  login: string,
  method: string,
  path: string,
  body?: unknown,
  etag?: string,
): Promise<{ body: Record<string, unknown>; etag: string }> {
  const request = {
    method,
    headers: {
      Authorization: `Bearer ${login}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': crypto.randomUUID(),
      ...(etag === undefined ? {} : { 'If-Match': etag }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  }
  let response = await fetch(stack.endpoints.core + path, request)
  // A machine that stalls is told to come again, and may: under the same key it is one command.
  for (let attempt = 1; response.status === 503 && attempt < attemptsMax; attempt++) {
    await response.body?.cancel()
    await pause(againMs)
    response = await fetch(stack.endpoints.core + path, request)
  }
  const answer = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${JSON.stringify(answer)}`)
  return { body: answer, etag: response.headers.get('etag') ?? '' }
}

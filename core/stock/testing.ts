import { randomUUID } from 'node:crypto'
import { gateKey } from '../../lua/keys.ts'
import { renewLease } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'
import type { Answer } from '../rig.test.ts'

/** What tests of stock share: campaigns with stock in several buckets, and an independent look at all of it. */

/** Every term of what a campaign's stock adds up to, read from both stores; only where no step is under way. */
export interface Balance {
  quota: number
  unallocated: number
  allocated: number
  inTransit: number
  remaining: number
  accepted: number
  returned: number
}

export async function readBalance(deps: Deps, campaignId: string): Promise<Balance> {
  const [row] = await deps.db.admin.sql<Omit<Balance, 'remaining' | 'accepted' | 'returned'>[]>`
    SELECT s.quota, s.unallocated,
      (SELECT sum(allocated)::bigint FROM buckets b WHERE b.campaign_id = s.campaign_id) AS allocated,
      (SELECT coalesce(sum(amount), 0)::bigint FROM transfers t
        WHERE t.campaign_id = s.campaign_id AND state = 'WITHDRAWN') AS "inTransit"
    FROM campaign_stock s WHERE campaign_id = ${campaignId}`
  const buckets = await deps.db.admin.sql<{ bucket: number }[]>`
    SELECT bucket FROM buckets WHERE campaign_id = ${campaignId}`
  const sums = { remaining: 0, accepted: 0, returned: 0 }
  for (const { bucket } of buckets) {
    const [remaining, accepted, returned] = await deps.redis.hmget(
      gateKey({ campaignId, bucket }),
      'remaining',
      'accepted',
      'returned',
    )
    sums.remaining += Number(remaining)
    sums.accepted += Number(accepted)
    sums.returned += Number(returned)
  }
  return { ...row!, ...sums }
}

/** Leases as the guardian gives them. */
export async function leaseAll(
  deps: Deps,
  campaignId: string,
  buckets: number,
  final = false,
): Promise<void> {
  await Promise.all(
    Array.from({ length: buckets }, (_, bucket) =>
      renewLease(deps.runner, { campaignId, bucket }, 20 * limits.leaseMs, final),
    ),
  )
}

interface Poster {
  post(who: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
}

export interface Published {
  id: string
  /** Any command on it, with the version that the last one left. `who` is `role:user`. */
  command(who: string, verb: string, body?: unknown, key?: string): Promise<Answer>
}

/** Made by olga, approved by anna, published: through the admin API. */
export async function publishedCampaign(rig: Poster, extra: object = {}): Promise<Published> {
  const made = await rig.post('operator:olga', '/admin/v1/campaigns', {
    name: 'Stock',
    quota: 100,
    per_user_limit: 1,
    starts_at: new Date(Date.now() - 60_000).toISOString(),
    ends_at: new Date(Date.now() + 3_600_000).toISOString(),
    time_zone: 'Asia/Shanghai',
    rules: {
      benefit: { kind: 'free_shipping', threshold: { currency: 'CNY', minor: '0' } },
      validity: { kind: 'days', days: 7 },
    },
    ...extra,
  })
  if (made.status !== 201) throw new Error(made.text)
  const id = made.body['id'] as string
  let version = made.body['version'] as number
  const command: Published['command'] = async (who, verb, body, key = randomUUID()) => {
    const headers = { 'If-Match': `"${version}"`, 'Idempotency-Key': key }
    const answer = await rig.post(who, `/admin/v1/campaigns/${id}/${verb}`, body, headers)
    if (answer.status === 200) version = answer.body['version'] as number
    return answer
  }
  for (const [who, verb] of [
    ['operator:olga', 'submit'],
    ['approver:anna', 'approve'],
    ['operator:olga', 'publish'],
  ] as const) {
    const answer = await command(who, verb)
    if (answer.status !== 200) throw new Error(`${verb}: ${answer.text}`)
  }
  return { id, command }
}

/**
 * Asserts that something takes less than `ms`, at the best of three: a moment in which the machine stands still says
 * nothing about it.
 * @param work does it once, on ground of its own, and tells how long it took, ms.
 */
export async function assertTakesLess(ms: number, work: () => Promise<number>): Promise<void> {
  const took: number[] = []
  while (took.length < 3) {
    took.push(await work())
    if (took.at(-1)! < ms) return
  }
  throw new Error(`it took ${took.join(', ')} ms, each time ${ms} ms or more`)
}

/** Waits for a condition with a deadline. */
export async function until(what: string, holds: () => Promise<boolean>, deadlineMs = 20_000): Promise<void> {
  const end = Date.now() + deadlineMs
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not in ${deadlineMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

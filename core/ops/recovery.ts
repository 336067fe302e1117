import type { RebuildPlan } from '../recovery/plan.ts'
import type { Client } from './client.ts'
import { OpsError } from './errors.ts'

interface Rebuilt {
  buckets: { bucket: number; outcome: string; detail?: string; numbers?: Record<string, number> }[]
}

export interface RebuildCall {
  campaignId: string
  dryRun: boolean
  force: boolean
  reason: string | undefined
  json: boolean
  out(line: string): void
}

/** Shows what a rebuild would do, or does it. @throws OpsError when a bucket could not be rebuilt */
export async function rebuild(client: Client, call: RebuildCall): Promise<void> {
  const path = `/admin/v1/campaigns/${encodeURIComponent(call.campaignId)}/rebuild`
  if (call.dryRun) {
    const plan = await client.read<RebuildPlan>(path)
    for (const line of call.json ? [JSON.stringify(plan)] : describePlan(plan)) call.out(line)
    return
  }
  if (call.reason === undefined)
    throw new OpsError('usage', 'Give --reason: it is kept in the audit log. Or look first with --dry-run.')
  const done = await client.post<Rebuilt>('operator', path, { reason: call.reason, force: call.force })
  if (call.json) call.out(JSON.stringify(done))
  else
    for (const { bucket, outcome, detail, numbers } of done.buckets)
      call.out(`bucket ${bucket}: ${outcome}${wordsOf(numbers)}${detail === undefined ? '' : ` (${detail})`}`)
  const open = done.buckets.filter(({ outcome }) => outcome !== 'rebuilt')
  if (open.length > 0)
    throw new OpsError('refused', `${open.length} of ${done.buckets.length} buckets were not rebuilt.`)
}

function describePlan({ missing, buckets }: RebuildPlan): string[] {
  const lines = buckets.flatMap(({ bucket, redis, ledger, written_off }) => [
    `bucket ${bucket}`,
    `  Redis now  ${redis === null ? ' no gate' : wordsOf({ ...redis })}`,
    `  the ledger ${wordsOf({ ...ledger })}${written_off === 0 ? '' : ` written_off=${written_off}`}`,
  ])
  const balance =
    missing === 0
      ? 'The ledger accounts for the whole quota.'
      : `The ledger misses ${missing} of the quota: only --force rebuilds.`
  return [...lines, balance]
}

function wordsOf(numbers: Record<string, number> | undefined): string {
  return Object.entries(numbers ?? {})
    .map(([name, value]) => ` ${name}=${value}`)
    .join('')
}

/** Honours a lost acceptance for its user, and says what became of the claim, as JSON. */
export async function presentReceipt(
  client: Client,
  receipt: string,
  out: (line: string) => void,
): Promise<void> {
  out(JSON.stringify(await client.post('operator', '/admin/v1/receipts', { receipt })))
}

import { Counter, Histogram, type Registry } from 'prom-client'

/** What the drain and the compensator measure. */
export interface ClaimMetrics {
  issued: Counter
  rejected: Counter
  settled: Counter
  deadLetters: Counter
  entriesLost: Counter
  recovered: Counter
  failures: Counter<'failure'>
  compensations: Counter<'outcome'>
  batchClaims: Histogram
  transactionSeconds: Histogram
  settleSeconds: Histogram
  deliverySeconds: Histogram
}

const seconds = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60]

export function claimMetrics(registry: Registry): ClaimMetrics {
  const registers = [registry]
  const counter = <T extends string = never>(name: string, help: string, labelNames: T[] = []) =>
    (registry.getSingleMetric(name) as Counter<T> | undefined) ??
    new Counter<T>({ name, help, labelNames, registers })
  const histogram = (name: string, help: string, buckets: number[]) =>
    (registry.getSingleMetric(name) as Histogram | undefined) ??
    new Histogram({ name, help, buckets, registers })
  return {
    issued: counter('tidegate_coupons_issued_total', 'Coupons issued by the drain.'),
    rejected: counter('tidegate_claims_rejected_total', 'Accepted claims that did not become a coupon.'),
    settled: counter('tidegate_log_entries_settled_total', 'Log entries acknowledged after their commit.'),
    deadLetters: counter('tidegate_dead_letters_total', 'Claims set aside because they can’t be issued.'),
    entriesLost: counter(
      'tidegate_log_entries_lost_total',
      'Delivered log entries that were gone before they were settled: data loss.',
    ),
    recovered: counter(
      'tidegate_log_entries_recovered_total',
      'Entries taken over from a consumer that died, or from our own life before.',
    ),
    failures: counter('tidegate_issue_failures_total', 'Issuing transactions that failed, by meaning.', [
      'failure',
    ]),
    compensations: counter('tidegate_compensations_total', 'Answers to compensations, by outcome.', [
      'outcome',
    ]),
    batchClaims: histogram(
      'tidegate_issue_batch_claims',
      'Claims of one issuing transaction.',
      [1, 4, 16, 64, 256, 1024, 4096],
    ),
    transactionSeconds: histogram(
      'tidegate_issue_transaction_seconds',
      'One issuing transaction that committed.',
      seconds,
    ),
    settleSeconds: histogram('tidegate_settle_seconds', 'Settling one batch in Redis.', seconds),
    deliverySeconds: histogram(
      'tidegate_delivery_seconds',
      'From acceptance to commit, one observation a log entry.',
      seconds,
    ),
  }
}

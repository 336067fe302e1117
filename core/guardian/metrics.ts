import { Counter, Gauge, type Registry } from 'prom-client'

export interface GuardianMetrics {
  withheld: Gauge<'reason'>
  renewed: Counter
  entries: Gauge
  oldestSeconds: Gauge
}

export function guardianMetrics(registry: Registry): GuardianMetrics {
  const registers = [registry]
  return {
    withheld: new Gauge({
      name: 'tidegate_leases_withheld',
      help: 'Buckets that get no lease at the moment, by reason.',
      labelNames: ['reason'],
      registers,
    }),
    renewed: new Counter({
      name: 'tidegate_leases_renewed_total',
      help: 'Renewals of bucket leases.',
      registers,
    }),
    entries: new Gauge({
      name: 'tidegate_log_entries',
      help: 'Entries in the logs of active campaigns that are not settled yet.',
      registers,
    }),
    oldestSeconds: new Gauge({
      name: 'tidegate_oldest_unsettled_seconds',
      help: 'Age of the oldest of them.',
      registers,
    }),
  }
}

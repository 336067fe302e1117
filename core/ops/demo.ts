export interface DemoOptions {
  name: string
  quota: number
  perUserLimit: number
  /** Seconds from now to its start; 0: open already. */
  opensInS: number
  /** How long it is open. */
  hours: number
  nowMs: number
}

/** The body of a campaign to try things with: 20 off 100, for a month from its issue. */
export function demoCampaign({ name, quota, perUserLimit, opensInS, hours, nowMs }: DemoOptions): object {
  const startsAtMs = nowMs + opensInS * 1_000
  return {
    name,
    mode: 'first_come',
    quota,
    per_user_limit: perUserLimit,
    starts_at: new Date(startsAtMs).toISOString(),
    ends_at: new Date(startsAtMs + hours * 3_600_000).toISOString(),
    time_zone: 'UTC',
    rules: {
      benefit: {
        kind: 'amount_off',
        amount: { currency: 'EUR', minor: '2000' },
        threshold: { currency: 'EUR', minor: '10000' },
      },
      validity: { kind: 'days', days: 30 },
    },
  }
}

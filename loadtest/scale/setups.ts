import type { ScaleOptions } from '../../stack/scaleOut.ts'

/** One way to spread the same load. */
export interface Setup {
  readonly name: string
  readonly about: string
  readonly stack: Readonly<ScaleOptions>
  /** The claims are dealt out to these. */
  readonly campaigns: readonly { readonly store: string; readonly buckets: number }[]
}

const one = (buckets: number): Setup['campaigns'] => [{ store: 'main', buckets }]
const cluster = { masters: 3, replicas: 3 }

/** In an order in which neighbours share a stack. */
export const setups: readonly Setup[] = [
  ...[1, 2, 4, 8].map((buckets) => ({
    name: `buckets-${buckets}`,
    about: `one Redis, a campaign of ${buckets === 1 ? 'one bucket' : `${buckets} buckets`}`,
    stack: {},
    campaigns: one(buckets),
  })),
  {
    name: 'cluster-8-buckets',
    about: 'a Redis Cluster of three masters with a replica each, a campaign of eight buckets',
    stack: { cluster },
    campaigns: one(8),
  },
  {
    name: 'two-redis',
    about: 'two Redis servers by directory, a campaign of one bucket on each',
    stack: { stores: ['two'] },
    campaigns: [
      { store: 'main', buckets: 1 },
      { store: 'two', buckets: 1 },
    ],
  },
  { name: 'cores-2', about: 'two core processes', stack: { cores: 2 }, campaigns: one(4) },
  { name: 'cores-3', about: 'three core processes', stack: { cores: 3 }, campaigns: one(4) },
  { name: 'workers-2', about: 'two worker runtimes', stack: { workers: 2 }, campaigns: one(4) },
  {
    name: 'all',
    about: 'the cluster, a second Redis, three core processes and two worker runtimes at once',
    stack: { cluster, stores: ['two'], cores: 3, workers: 2 },
    campaigns: [
      { store: 'main', buckets: 8 },
      { store: 'two', buckets: 1 },
    ],
  },
]

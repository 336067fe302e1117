import { gateKey } from '../../lua/keys.ts'
import type { StoreNode } from '../stores/store.ts'
import type { Stores } from '../stores/stores.ts'
import type { Watched } from './watchList.ts'

/** A server of a store, with the buckets that it has now. */
export interface Server {
  /** For the log: the store and the address. */
  readonly name: string
  readonly node: StoreNode
  readonly buckets: Watched[]
}

/** Who has which buckets now. @param nowhere is told of a bucket that nobody is known to serve. */
export function byServer(
  stores: Pick<Stores, 'of'>,
  all: readonly Watched[],
  nowhere: (one: Watched, error: unknown) => void,
): Server[] {
  const servers = new Map<StoreNode, Server>()
  for (const one of all)
    try {
      const store = stores.of(one.bucket.campaignId)
      const node = store.nodeOf(gateKey(one.bucket))
      const server = servers.get(node)
      if (server !== undefined) server.buckets.push(one)
      else servers.set(node, { name: `${store.name} ${node.address}`, node, buckets: [one] })
    } catch (error) {
      nowhere(one, error)
    }
  return [...servers.values()]
}

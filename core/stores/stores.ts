import type { Logger } from 'pino'
import { campaignOfKey } from '../../lua/keys.ts'
import { ArbiterError, type ScriptRunner } from '../../lua/runner.ts'
import { mainStore, storeOfCampaign } from '../../schema/campaignId.ts'
import { openCluster } from './cluster.ts'
import { openSingle } from './single.ts'
import type { Store, StoreSpec } from './store.ts'

/** All Redis deployments that this core knows, by name: the directory (SC2). */
export interface Stores {
  /** In the order of the configuration; the main one, which also carries results to all processes, is the first. */
  readonly all: readonly Store[]
  readonly main: Store
  /** Runs scripts in the store, and on the node, of the campaign whose keys they get. */
  readonly runner: ScriptRunner
  has(name: string): boolean
  /** The store with this campaign's gates. @throws UnknownStore */
  of(campaignId: string): Store
  close(): void
}

/** A campaign's store is not in this process's configuration. */
export class UnknownStore extends Error {
  constructor(name: string) {
    super(`no store ${name} is configured: add it to REDIS_STORES`)
    this.name = 'UnknownStore'
  }
}

/** Opens what is configured; nothing is waited for. @param specs has the main store first. */
export function openStores(specs: readonly StoreSpec[], log: Logger): Stores {
  return makeStores(
    specs.map(({ name, urls }) =>
      urls.length === 1 ? openSingle(name, urls[0]!, log) : openCluster(name, urls, log),
    ),
  )
}

/** @param all has the main store first. */
export function makeStores(all: readonly Store[]): Stores {
  const byName = new Map(all.map((store) => [store.name, store]))
  const main = byName.get(mainStore)!

  function of(campaignId: string): Store {
    const name = storeOfCampaign(campaignId)
    const store = byName.get(name)
    if (store === undefined) throw new UnknownStore(name)
    return store
  }

  return {
    all,
    main,
    runner: routed(of),
    has: (name) => byName.has(name),
    of,
    close() {
      for (const store of all) store.close()
    },
  }
}

function routed(of: Stores['of']): ScriptRunner {
  return {
    async run(script, keys, args) {
      let store: Store
      try {
        store = of(campaignOfKey(keys[0]!))
      } catch (error) {
        // Nothing was sent, so nothing was changed.
        throw new ArbiterError('refused', (error as Error).message, error)
      }
      return store.runner.run(script, keys, args)
    },
  }
}

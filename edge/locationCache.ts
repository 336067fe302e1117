import { bounds } from './bounds.ts'
import { within } from './lifetime.ts'
import { describe, type Log } from './log.ts'

/**
 * What the isolates of one location share (the Cache API), by our own names. It may forget anything at any time and
 * may be away: whoever reads it goes on without. Nothing in it can be reached by a client's request.
 */
export interface LocationCache {
  /** Undefined: not there. Never rejects. */
  get(name: string): Promise<Response | undefined>
  /** Never rejects. */
  put(name: string, body: string | Uint8Array<ArrayBuffer>, ttlMs: number): Promise<void>
}

/** A host that can't exist, so no zone serves these addresses. */
const host = 'https://tidegate.invalid/'

/** What we need of the runtime's cache. */
interface PlatformCache {
  match(address: string): Promise<Response | undefined>
  put(address: string, response: Response): Promise<void>
}

export function makeLocationCache(cache: () => PlatformCache, log: Log): LocationCache {
  return {
    async get(name) {
      try {
        return await within(cache().match(host + name), bounds.cacheTimeoutMs, 'cache: no answer')
      } catch (error) {
        log('cache_failed', describe(error))
        return undefined
      }
    },
    async put(name, body, ttlMs) {
      // The cache counts whole seconds; what must be younger carries its own time.
      const headers = { 'Cache-Control': `public, max-age=${Math.max(1, Math.ceil(ttlMs / 1000))}` }
      try {
        await cache().put(host + name, new Response(body, { headers }))
      } catch (error) {
        log('cache_failed', describe(error))
      }
    },
  }
}

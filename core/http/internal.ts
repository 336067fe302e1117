import { limits } from '../../schema/limits.ts'
import type { Snapshots } from '../campaigns/snapshot.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { campaignIdOf } from './admin.ts'
import type { CoreApp } from './types.ts'

/** For the edge only; not in the API's documentation. */
export function registerInternalRoutes(app: CoreApp, deps: Deps, snapshots: Snapshots): void {
  app.get('/internal/v1/campaigns/:id', async (c) => {
    deps.identity.edge(c)
    const snapshot = await snapshots.get(campaignIdOf(c.req.param('id'), deps))
    if (snapshot === undefined) throw new Refused('CAMPAIGN_NOT_FOUND')
    const drawn = snapshot.ballot?.entrants_count
    const etag = `"${snapshot.config_version}.${snapshot.state}.${snapshot.sold_out ? 1 : 0}${drawn === undefined ? '' : `.${drawn}`}"`
    const headers = { ETag: etag, 'Cache-Control': `private, max-age=${Math.floor(limits.viewTtlMs / 1000)}` }
    if (c.req.header('If-None-Match') === etag) return c.body(null, 304, headers)
    return c.json(snapshot, 200, headers)
  })
}

import { makeSnapshots } from '../campaigns/snapshot.ts'
import type { Deps } from '../deps.ts'
import { registerPushRoutes } from '../push/routes.ts'
import { registerWebhookRoutes } from '../webhooks/routes.ts'
import { registerAdminRoutes } from './admin.ts'
import { createApp } from './app.ts'
import { registerBallotRoutes } from './ballot.ts'
import { registerCampaignRoutes } from './campaigns.ts'
import { registerHealthRoutes } from './health.ts'
import { registerInternalRoutes } from './internal.ts'
import { registerOpenApiRoutes } from './openapi.ts'
import { registerStockRoutes } from './stock.ts'
import type { CoreApp } from './types.ts'

export interface AppOptions {
  /** Once true, /readyz says so, and whoever balances sends no more. */
  isStopping(): boolean
  /** A campaign may take claims from now on: parts that look for such from time to time may look now. */
  onOpened?(): void
  /** A ballot was drawn: its results may be carried out now. */
  onDrawn?(): void
  /** Adds routes of parts that have more than `deps`. */
  also?(app: CoreApp): void
}

/** Of a process that serves no API: only what watches it. */
export function buildHealthApp(deps: Deps, isStopping: () => boolean): CoreApp {
  const app = createApp(deps)
  registerHealthRoutes(app, deps, isStopping)
  return app
}

/** The core's whole HTTP side. */
export function buildApp(
  deps: Deps,
  { isStopping, onOpened = () => undefined, onDrawn = () => undefined, also }: AppOptions,
): CoreApp {
  const app = createApp(deps)
  registerAdminRoutes(app, deps)
  registerCampaignRoutes(app, deps, onOpened)
  registerStockRoutes(app, deps)
  registerWebhookRoutes(app, deps)
  registerPushRoutes(app, deps)
  registerBallotRoutes(app, deps, onDrawn)
  registerInternalRoutes(app, deps, makeSnapshots(deps))
  also?.(app)
  registerHealthRoutes(app, deps, isStopping)
  registerOpenApiRoutes(app)
  return app
}

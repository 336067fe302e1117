import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Logger } from 'pino'
import type { Caller } from './identity.ts'

/** What every handler finds in its context. */
export interface HttpEnv {
  Variables: {
    /** Names this HTTP request in logs and problems. */
    requestId: string
    log: Logger
    /** Under /admin/: who calls. */
    caller: Caller
  }
}

/** The app that parts register their routes on. */
export type CoreApp = OpenAPIHono<HttpEnv>

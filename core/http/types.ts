import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Logger } from 'pino'

/** What every handler finds in its context. */
export interface HttpEnv {
  Variables: {
    /** Names this HTTP request in logs and problems. */
    requestId: string
    log: Logger
  }
}

/** The app that parts register their routes on. */
export type CoreApp = OpenAPIHono<HttpEnv>

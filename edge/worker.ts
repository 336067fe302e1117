import { enterBallot } from '../lua/claim.ts'
import { limits } from '../schema/limits.ts'
import { makeArbiterRunner } from './arbiterRunner.ts'
import { Breaker } from './breaker.ts'
import { makeCampaigns } from './campaigns.ts'
import { claim } from './claim.ts'
import { type Bindings, type Config, parseConfig } from './config.ts'
import { makeCore } from './core.ts'
import { GroupCommit } from './groupCommit.ts'
import { makeGuards } from './guards/compose.ts'
import { makeHolders } from './holders.ts'
import type { Lifetime } from './lifetime.ts'
import { makeLocationCache } from './locationCache.ts'
import { describe, makeLog } from './log.ts'
import { makeLogins } from './login.ts'
import { Metrics } from './metrics.ts'
import { randomText } from './random.ts'
import { makeRefuse, requestIds } from './refusal.ts'
import { failed, makeRoutes, type Parts } from './routes.ts'
import { SoldOut } from './soldOut.ts'
import { StreamPlaces } from './streamPlaces.ts'
import { showsToken, timedClaim } from './timedClaim.ts'

/** The gate's composition root: bindings are read here, once an isolate, and nowhere else. */

type Gate = (request: Request, lifetime: Lifetime & ExecutionContext) => Response | Promise<Response>

const clock = () => Date.now()
const log = makeLog(clock, (line) => console.error(line))

function compose(bindings: Bindings): Gate {
  const config = parseConfig(bindings)
  const random = randomText((bytes) => crypto.getRandomValues(bytes))
  const refuse = makeRefuse(requestIds(random.text(12)))
  const cache = makeLocationCache(() => caches.default, log)
  const toCore = new Breaker({ what: 'core', log, callEndsMs: limits.coreTimeoutMs + 1_000, clock })
  const core = makeCore({ url: config.coreUrl, keys: config.keys.edgeCore, breaker: toCore, clock })
  const campaigns = makeCampaigns(core, cache, config.keys.campaignId, clock)
  const logins = makeLogins(config.login, clock)
  const { runner, circuits } = makeArbiterRunner(config, log, clock)
  const holders = makeHolders({ runner, cache, log })
  const groups = new GroupCommit({
    runner,
    onReply: (bucket, reply, startedAtMs, lifetime) => arbiter.learn(bucket, reply, startedAtMs, lifetime),
    log,
    clock,
  })
  const arbiter = new SoldOut({ arbiter: groups, holders, cache, clock })
  const ballots = new GroupCommit({ runner, log, clock, arbitrate: enterBallot })
  const guards = makeGuards(config.guards, bindings, campaigns, log, clock)
  const metrics = new Metrics(bindings.METRICS, clock)
  const parts: Parts = {
    claim: {
      metrics,
      keys: config.keys,
      logins,
      arbiter,
      ballots,
      guard: guards.claim,
      core,
      random,
      refuse,
      clock,
    },
    issue: { campaigns, logins, keys: config.keys.claimToken, guard: guards.issue, random, refuse, clock },
    view: { campaigns, refuse, clock },
    personal: {
      places: new StreamPlaces(clock),
      core,
      runner,
      logins,
      keys: config.keys.receipt,
      guard: guards.read,
      refuse,
      log,
      clock,
    },
    metrics: {
      token: config.metricsToken,
      claims: metrics,
      groups: { claim: groups, ballot: ballots },
      circuits: [toCore, ...circuits],
      isolate: random.text(12),
      startedAtMs: clock(),
      refuse,
      clock,
    },
    refuse,
    log,
  }
  return dispatch(parts, config, bindings)
}

function dispatch(parts: Parts, { metricsToken }: Config, bindings: Bindings): Gate {
  const routes = makeRoutes(parts)
  const { ASSETS: assets } = bindings

  return (request, context) => {
    const path = pathOf(request.url)
    if (request.method === 'POST') {
      const campaignId = claimsPath.exec(path)?.[1]
      if (campaignId !== undefined) {
        const timed = metricsToken !== undefined && showsToken(request, metricsToken)
        return (timed ? timedClaim : claim)(parts.claim, request, context, campaignId).catch((error) =>
          failed(parts, error, request),
        )
      }
    }
    if (assets !== undefined && !isApi(path)) return assets.fetch(request)
    return routes.fetch(request, bindings, context)
  }
}

/** The hot path goes before the router. */
const claimsPath = /^\/v1\/campaigns\/([^/%?]+)\/claims(?:\?|$)/

/** Path and query of an absolute address. */
function pathOf(url: string): string {
  return url.slice(url.indexOf('/', 8))
}

function isApi(path: string): boolean {
  return path.startsWith('/v1/') || path === '/v1' || path.startsWith('/_gate/')
}

let gate: Gate | undefined

export default {
  // Not async: a claim's answer would pass through one more promise.
  fetch(request, bindings, context) {
    try {
      gate ??= compose(bindings)
    } catch (error) {
      log('misconfigured', describe(error))
      return makeRefuse(requestIds(crypto.randomUUID()))('UNAVAILABLE', {
        retry_after_ms: limits.retryAfterMs,
      })
    }
    return gate(request, context)
  },
} satisfies ExportedHandler<Bindings>

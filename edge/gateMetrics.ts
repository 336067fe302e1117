import { equalConstantTime } from '../schema/sealed.ts'
import type { Breaker } from './breaker.ts'
import type { GroupCommit } from './groupCommit.ts'
import { bearer } from './login.ts'
import type { Metrics } from './metrics.ts'
import type { Refuse } from './refusal.ts'

export interface GateMetricsParts {
  /** METRICS_TOKEN; undefined: there is no such page. */
  readonly token: string | undefined
  readonly claims: Metrics
  /** By what they ask of the arbiter. */
  readonly groups: Readonly<Record<string, Pick<GroupCommit, 'started'>>>
  readonly circuits: readonly Pick<Breaker, 'what' | 'isOpen'>[]
  /** Random, made with the isolate. */
  readonly isolate: string
  readonly startedAtMs: number
  readonly refuse: Refuse
  clock(): number
}

/** `GET /_gate/metrics` with METRICS_TOKEN as its bearer: what this isolate has counted, as Prometheus text. */
export function gateMetrics(parts: GateMetricsParts, request: Request): Response {
  const { token, refuse } = parts
  const shown = bearer(request.headers.get('Authorization'))
  if (token === undefined || shown === undefined || !equalConstantTime(shown, token))
    return refuse('UNAUTHENTICATED')
  return new Response(expose(parts), {
    headers: { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8', 'Cache-Control': 'no-store' },
  })
}

const here = /_HERE$/

/** Prometheus' text format 0.0.4. */
function expose({ claims, groups, circuits, isolate, startedAtMs, clock }: GateMetricsParts): string {
  const outcomes = [...claims.totals].map(([name, count]) => {
    const by = here.test(name) ? 'gate' : 'arbiter'
    return `{outcome="${name.replace(here, '')}",by="${by}"} ${count}`
  })
  const calls = Object.entries(groups).flatMap(([kind, { started }]) => [
    `_sum{kind="${kind}"} ${started.claims}`,
    `_count{kind="${kind}"} ${started.calls}`,
  ])
  const open = circuits.map(({ what, isOpen }) => `{to="${what}"} ${isOpen ? 1 : 0}`)
  return [
    family('isolate_info', 'gauge', 'Whose counts these are: the next scrape may be of another isolate.', [
      `{isolate="${isolate}"} 1`,
    ]),
    family('claims_total', 'counter', 'Claims by outcome; by="gate": refused without asking.', outcomes),
    family('arbitration_batch_claims', 'summary', 'Arbitration calls and the claims in them.', calls),
    family('circuit_open', 'gauge', 'Whether a dependency is taken to be away.', open),
    family('isolate_age_seconds', 'gauge', 'Since this isolate began.', [
      ` ${(clock() - startedAtMs) / 1_000}`,
    ]),
  ].join('')
}

function family(name: string, type: string, help: string, samples: readonly string[]): string {
  const full = `tidegate_edge_${name}`
  const lines = samples.map((sample) => `${full}${sample}\n`)
  return `# HELP ${full} ${help}\n# TYPE ${full} ${type}\n${lines.join('')}`
}

import type { CapacityRecord } from '../record/record.ts'
import type { Costs } from './costs.ts'
import { pollsOf } from './measure.ts'
import { type Prediction, predict, type Run, usPerClaim } from './predict.ts'
import { machineCores, type Rig, type Sent, type Span, sendClosed, sendOpen, total } from './rig.ts'

export const errorMax = 0.25
const openingSeconds = 6
const mixSeconds = 5
/** Of the claims that the machine takes. */
const pollShare = 0.25
const capacityClaims = 15_000
const capacityMs = 4_000

type Validation = CapacityRecord['validations'][number]

/**
 * Predicts runs that no unit cost was made from, and then makes them: an opening that sells out half way at one rate,
 * repetitions and polls at another, and how many claims a second the machine takes when nothing waits.
 */
export async function validate(rig: Rig, costs: Costs, say: (line: string) => void): Promise<Validation[]> {
  say('validation: an opening that sells out')
  const opening = await runOpening(rig, costs, costs.local.claims_per_second * 0.5)
  say('validation: repetitions and polls')
  const mix = await runMix(rig, costs, costs.local.claims_per_second * 0.2)
  say('validation: as much as the machine takes')
  return [...opening, ...mix, ...(await runCapacity(rig, costs))]
}

export function compare(run: string, what: string, predicted: number, measured: number): Validation {
  const round = (value: number) => Math.round(value * 1_000) / 1_000
  const error =
    measured === 0 ? (predicted === 0 ? 0 : Number.POSITIVE_INFINITY) : (predicted - measured) / measured
  return { run, what, predicted: round(predicted), measured: round(measured), error: round(error) }
}

function compareAll(run: string, predicted: Prediction, span: Span): Validation[] {
  return [
    compare(run, 'arbitration calls that accept', predicted.calls, span.byCommand['xadd'] ?? 0),
    compare(run, 'Redis commands billed', predicted.commands, span.commands),
    compare(run, 'CPU s of the worker runtime', predicted.worker, span.cpu.worker),
    compare(run, 'CPU s of the gateway', predicted.gateway, span.cpu.gateway),
    compare(run, 'CPU s of Redis', predicted.redis, span.cpu.redis),
    compare(
      run,
      'CPU s of core and Postgres',
      predicted.core + predicted.postgres,
      span.cpu.core + span.cpu.postgres,
    ),
  ]
}

const count = (sent: Sent, code: string) => sent[code] ?? 0

function expectOnly(sent: Sent, ...codes: string[]): void {
  const odd = Object.entries(sent).filter(([code]) => !codes.includes(code))
  const share = odd.reduce((sum, [, n]) => sum + n, 0) / total(sent)
  // A few claims without an answer change no prediction; a run that mostly failed predicts nothing.
  if (share > 0.05) throw new Error(`the run to be predicted did not go as planned: ${JSON.stringify(sent)}`)
}

async function runOpening(rig: Rig, costs: Costs, perSecond: number): Promise<Validation[]> {
  const users = Math.round(perSecond * openingSeconds)
  const quota = Math.round(users / 2)
  const id = await rig.campaign(quota)
  const requests = rig.claims(id, users).map(({ request }) => request)
  const span = await rig.span(async () => {
    const sent = await sendOpen(rig.client, requests, perSecond)
    await rig.settled(id, count(sent, 'ACCEPTED'))
    return sent
  })
  expectOnly(span.result, 'ACCEPTED', 'SOLD_OUT')
  const run: Run = {
    seconds: span.seconds,
    claimsPerSecond: perSecond,
    accepted: quota,
    repeats: 0,
    soldOut: users - quota,
    polls: 0,
    tokens: 0,
  }
  return compareAll(
    `opening, ${Math.round(perSecond)} claims/s, half of them in vain`,
    predict(costs, run),
    span,
  )
}

/** Each claim twice under its key, a moment apart, and then a question for its status. */
async function runMix(rig: Rig, costs: Costs, perSecond: number): Promise<Validation[]> {
  const users = Math.round((perSecond * mixSeconds) / 2)
  const id = await rig.campaign(users)
  const first = rig.claims(id, users).map(({ request }) => request)
  const lag = Math.min(users, 200)
  const mixed: Buffer[] = []
  for (let i = 0; i < users + lag; i++) {
    if (i < users) mixed.push(first[i]!)
    if (i >= lag) mixed.push(first[i - lag]!)
  }
  const span = await rig.span(async () => {
    const sent = await sendOpen(rig.client, mixed, perSecond)
    await rig.settled(id, users)
    return sent
  })
  expectOnly(span.result, 'ACCEPTED')
  // Where to ask stands in answers, which cost claims: fetched outside of what is predicted.
  const polls = await pollsOf(rig, first.slice(0, Math.min(users, 1_500)))
  const pollsPerSecond = costs.local.claims_per_second * pollShare
  const asked = await rig.span(() => sendOpen(rig.client, polls, pollsPerSecond))
  const base = { claimsPerSecond: perSecond, soldOut: 0, tokens: 0 }
  const claims = predict(costs, { ...base, seconds: span.seconds, accepted: users, repeats: users, polls: 0 })
  const questions = predict(costs, {
    ...base,
    ...{ seconds: asked.seconds, accepted: 0, repeats: 0, polls: polls.length },
  })
  const name = `each claim twice, ${Math.round(perSecond)}/s`
  const pollsName = `polls, ${Math.round(pollsPerSecond)}/s`
  return [
    ...compareAll(name, claims, span),
    compare(pollsName, 'CPU s of the worker runtime', questions.worker, asked.cpu.worker),
    compare(
      pollsName,
      'CPU s of core and Postgres',
      questions.core + questions.postgres,
      asked.cpu.core + asked.cpu.postgres,
    ),
  ]
}

/** What is left of the machine by others, divided by what a claim takes of it. */
async function runCapacity(rig: Rig, costs: Costs): Promise<Validation[]> {
  const id = await rig.campaign(capacityClaims)
  const requests = rig.claims(id, capacityClaims).map(({ request }) => request)
  const span = await rig.span(() => sendClosed(rig.client, requests, capacityMs))
  expectOnly(span.result, 'ACCEPTED')
  const accepted = count(span.result, 'ACCEPTED')
  await rig.settled(id, accepted)
  const perCall = accepted / Math.max(1, span.byCommand['xadd'] ?? 1)
  const perBatch = accepted / Math.max(1, span.byCommand['xack'] ?? 1)
  const free = machineCores - span.others / span.seconds
  const predicted = (free * 1e6) / usPerClaim(costs, perCall, perBatch)
  return [compare('closed loop, 128 connections', 'claims a second', predicted, accepted / span.seconds)]
}

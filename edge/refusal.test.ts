import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decisions, type Refusal } from '../schema/decision.ts'
import { gateProblems, type ProblemCode, problem } from '../schema/problem.ts'
import { makeRefuse, requestIds } from './refusal.ts'

test('the ids of refused requests are unique in an isolate', () => {
  const ids = requestIds('p')
  assert.equal(new Set(Array.from({ length: 1_000 }, () => ids.next())).size, 1_000)
})

test('a refusal made beforehand is the one that would be made anew, but for its id', async () => {
  const refuse = makeRefuse(requestIds('p'))
  const refusals = (Object.keys(decisions) as (keyof typeof decisions)[]).filter(
    (decision): decision is Refusal => decision !== 'ACCEPTED' && decision !== 'REPLAYED',
  )
  const codes: ProblemCode[] = [...(Object.keys(gateProblems) as ProblemCode[]), ...refusals]
  let count = 0
  for (const code of codes)
    for (const made of [refuse(code), refuse(code), refuse(code, {})]) {
      const body = problem(code, `p-${(count++).toString(36)}`)
      assert.deepEqual(await made.json(), body)
      assert.equal(made.status, body.status)
      assert.equal(made.headers.get('Content-Type'), 'application/problem+json')
      assert.equal(made.headers.get('Cache-Control'), 'no-store')
      assert.equal(made.headers.has('WWW-Authenticate'), body.status === 401)
    }
})

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Cluster, Redis } from 'ioredis'
import { type ClaimArgs, type ClaimReply, claim, enterBallot } from '../../lua/claim.ts'
import { honour } from '../../lua/honour.ts'
import { gateKey, logKey, movesKey, usersKey } from '../../lua/keys.ts'
import { beginRebuild, finishRebuild, loadRecords } from '../../lua/rebuild.ts'
import { ArbiterError, type ScriptRunner } from '../../lua/runner.ts'
import {
  compensate,
  configure,
  type GateConfig,
  inspect,
  prime,
  renewLease,
  settle,
  snapshot,
} from '../../lua/stock.ts'
import { deposit, withdraw } from '../../lua/transfer.ts'
import { packTime } from '../../schema/acceptance.ts'
import { parseEntry } from '../../schema/entry.ts'
import { encodeSixbit } from '../../schema/sixbit.ts'

/** One way to reach a Redis: the runner under test, and a plain client to look and to spoil things. */
export interface Target {
  runner: ScriptRunner
  redis: Redis | Cluster
  close(): Promise<void>
}

const start = 1_800_000_000_000
const end = start + 60_000
const config: GateConfig = {
  configVersion: 1,
  state: 'ACTIVE',
  ruleVersion: 7,
  startsAtMs: start,
  endsAtMs: end,
  perUserLimit: 1,
}

let serial = 0
/** A claim of this user; every other part is fresh unless given. */
function of(userId: string, parts: { key?: string; params?: string; token?: string } = {}): ClaimArgs {
  const n = ++serial
  const key = parts.key ?? encodeSixbit(n, 9)
  const token = parts.token ?? encodeSixbit(n, 9)
  return { userId, packed: `0${encodeSixbit(n, 12)}${key}${parts.params ?? 'par1'}${token}A` }
}
const asEntry = ({ userId, packed }: ClaimArgs): ClaimArgs => ({ userId, packed: packed.replace(/.$/, 'B') })
const decisions = (reply: ClaimReply) => reply.verdicts.map((verdict) => verdict.decision)

/** The same guarantees over every protocol and topology. */
export function conformance(name: string, connect: () => Promise<Target>): void {
  describe(`the arbiter over ${name}`, () => {
    let target: Target
    let runner: ScriptRunner
    before(async () => {
      target = await connect()
      runner = target.runner
    })
    after(() => target?.close())

    const fresh = () => ({ campaignId: `c${process.pid}x${++serial}`, bucket: serial % 7 })
    async function open(stock: number, changes: Partial<GateConfig> = {}, final = true) {
      const bucket = fresh()
      assert.equal(
        await prime(runner, bucket, { ...config, ...changes }, { epoch: 1, amount: stock, final }),
        'primed',
      )
      await renewLease(runner, bucket, 1_000_000, final, start - 1000)
      return bucket
    }
    const terms = async (bucket: { campaignId: string; bucket: number }) => {
      const now = await snapshot(runner, bucket, start)
      assert.ok(now)
      return now
    }

    it('answers NOT_READY without a gate and writes nothing (case-A11, CL18)', async () => {
      const bucket = fresh()
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u'), of('v')])), ['NOT_READY', 'NOT_READY'])
      assert.equal(await target.redis.exists(gateKey(bucket), usersKey(bucket), logKey(bucket)), 0)
    })

    it('accepts nothing before the first lease, and nothing after the last one ran out', async () => {
      const bucket = fresh()
      await prime(runner, bucket, config, { epoch: 1, amount: 5, final: true })
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['BUSY'])
      await renewLease(runner, bucket, 500, true, start)
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start + 499)), ['ACCEPTED'])
      assert.deepEqual(decisions(await claim(runner, bucket, [of('v')], start + 500)), ['BUSY'])
    })

    it('ends its lease when the clock has stepped back before the moment that it was given', async () => {
      const bucket = fresh()
      await prime(runner, bucket, config, { epoch: 1, amount: 5, final: true })
      await renewLease(runner, bucket, 500, true, start + 1_000)
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start + 999)), ['BUSY'])
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start + 1_000)), ['BUSY'])
      await renewLease(runner, bucket, 500, true, start + 999)
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start + 1_000)), ['ACCEPTED'])
    })

    it('opens at the first millisecond and closes before the last (half open)', async () => {
      const bucket = await open(10)
      const at = async (ms: number) => decisions(await claim(runner, bucket, [of(`u${ms}`)], ms))[0]
      assert.equal(await at(start - 1), 'NOT_STARTED')
      assert.equal(await at(start), 'ACCEPTED')
      assert.equal(await at(end - 1), 'ACCEPTED')
      assert.equal(await at(end), 'ENDED')
    })

    for (const quota of [0, 1, 10]) {
      it(`gives exactly ${quota} of ${quota} (case-A8, case-A16)`, async () => {
        const bucket = await open(quota)
        const all = Array.from({ length: quota + 3 }, (_, i) => of(`u${i}`))
        const got: string[] = []
        for (const one of all) got.push(...decisions(await claim(runner, bucket, [one], start)))
        assert.equal(got.filter((decision) => decision === 'ACCEPTED').length, quota)
        assert.deepEqual(got.slice(quota), Array(3).fill('SOLD_OUT'))
        assert.equal((await terms(bucket)).remaining, 0)
      })
    }

    for (const limit of [1, 3, 100]) {
      it(`lets a user have ${limit} where the limit is ${limit}, also within one call`, async () => {
        const bucket = await open(200, { perUserLimit: limit })
        const calls = Array.from({ length: limit + 2 }, () => of('u'))
        const got: string[] = []
        for (let i = 0; i < calls.length; i += 64)
          got.push(...decisions(await claim(runner, bucket, calls.slice(i, i + 64), start)))
        assert.deepEqual(got, [...Array(limit).fill('ACCEPTED'), 'LIMIT_REACHED', 'LIMIT_REACHED'])
        assert.equal((await inspect(runner, bucket, 'u'))?.length, limit)
      })
    }

    it('repeats the first acceptance for the same key, whatever has happened to the campaign (A4 §15.1-1)', async () => {
      const bucket = await open(1)
      const mine = of('u', { key: 'thekey--1', token: 'thetoken1' })
      const first = await claim(runner, bucket, [mine], start)
      const requestId = first.verdicts[0]!.requestId
      const again = async () => {
        const [verdict] = (await claim(runner, bucket, [of('u', { key: 'thekey--1' })], end + 5)).verdicts
        return { decision: verdict!.decision, requestId: verdict!.requestId }
      }
      assert.deepEqual(await again(), { decision: 'REPLAYED', requestId })
      for (const [i, state] of (['PAUSED', 'ENDED', 'VOIDED'] as const).entries()) {
        await configure(runner, bucket, { ...config, state, configVersion: 2 + i })
        assert.deepEqual(await again(), { decision: 'REPLAYED', requestId }, state)
      }
      assert.equal((await terms(bucket)).accepted, 1)
    })

    it('tells replays and first claims of one call apart, in any order', async () => {
      const bucket = await open(64)
      const first = Array.from({ length: 32 }, (_, i) => of(`u${i}`))
      const one = await claim(runner, bucket, first, start)
      const mixed = first.flatMap((old, i) => [of(`v${i}`), old])
      const two = await claim(runner, bucket, mixed, start + 1)
      for (let i = 0; i < 32; i++) {
        assert.equal(two.verdicts[2 * i]!.decision, 'ACCEPTED')
        assert.deepEqual(two.verdicts[2 * i + 1], { ...one.verdicts[i], decision: 'REPLAYED' })
      }
    })

    it('refuses the same key with other parameters, and the same token with another key (case-B4, case-K7)', async () => {
      const bucket = await open(5, { perUserLimit: 3 })
      await claim(runner, bucket, [of('u', { key: 'thekey--1', token: 'thetoken1' })], start)
      const other = [
        of('u', { key: 'thekey--1', params: 'par2' }),
        of('u', { token: 'thetoken1' }),
        of('v', { key: 'thekey--1', token: 'thetoken1' }),
      ]
      assert.deepEqual(decisions(await claim(runner, bucket, other, start)), [
        'IDEMPOTENCY_MISMATCH',
        'TOKEN_USED',
        'ACCEPTED',
      ])
    })

    it('follows the precedence of DESIGN §4 where several refusals fit', async () => {
      const bucket = await open(1)
      await claim(runner, bucket, [of('u', { token: 'thetoken1' })], start)
      const ask = async (ms: number) => decisions(await claim(runner, bucket, [of('u')], ms))[0]
      assert.equal(await ask(start), 'LIMIT_REACHED', 'limit before sold out')
      await renewLease(runner, bucket, 0, true, start)
      assert.equal(await ask(start), 'BUSY', 'lease before limit')
      assert.equal(await ask(start - 1), 'NOT_STARTED', 'window before lease')
      await configure(runner, bucket, { ...config, state: 'PAUSED', configVersion: 2 })
      assert.equal(await ask(end), 'PAUSED', 'state before window')
      const used = await claim(runner, bucket, [of('u', { token: 'thetoken1' })], end)
      assert.deepEqual(decisions(used), ['TOKEN_USED'], 'token before state')
    })

    it('takes any user id: long, Unicode, quotes, separators, NUL, and keeps them apart', async () => {
      const users = [
        'u',
        'u ',
        'U',
        'é',
        'e\u0301',
        '"',
        "'",
        '\\',
        '{a:1}',
        ':',
        '\n',
        '\r\n',
        '\u0000',
        '\u0000u',
      ]
      users.push('x'.repeat(256), '漢'.repeat(256), '👩‍👩‍👧', '0', '-0', '__proto__', 'constructor', ' ')
      const bucket = await open(users.length)
      const reply = await claim(
        runner,
        bucket,
        users.map((user) => of(user)),
        start,
      )
      assert.deepEqual(decisions(reply), Array(users.length).fill('ACCEPTED'))
      const [[id, fields]] = (await target.redis.xrange(logKey(bucket), '-', '+')) as [[string, string[]]]
      const entry = parseEntry(id, fields)
      assert.deepEqual(
        entry.claims.map((one) => [one.userId, one.requestId]),
        users.map((user, i) => [user, reply.verdicts[i]!.requestId]),
      )
      for (const user of users)
        assert.equal((await inspect(runner, bucket, user))?.length, 1, JSON.stringify(user))
    })

    it('writes one log entry for a call of 64, with rule version, epoch and every acceptance', async () => {
      const bucket = await open(60)
      const reply = await claim(
        runner,
        bucket,
        Array.from({ length: 64 }, (_, i) => of(`u${i}`)),
        start,
      )
      assert.equal(reply.remaining, 0)
      const entries = (await target.redis.xrange(logKey(bucket), '-', '+')) as [string, string[]][]
      assert.equal(entries.length, 1)
      const entry = parseEntry(...entries[0]!)
      assert.deepEqual(
        [entry.kind, entry.ruleVersion, entry.epoch, entry.claims.length],
        ['claims', 7, 1, 60],
      )
      assert.ok(entry.claims.every((one) => one.acceptedAtMs === start && one.state === 'A'))
    })

    it('counts exactly near 2^53 (case-H1)', async () => {
      const large = 9_007_199_254_740_000
      const bucket = await open(large)
      await claim(runner, bucket, [of('u'), of('v')], start)
      const now = await terms(bucket)
      assert.deepEqual([now.remaining, now.accepted, now.allocated], [large - 2, 2, large])
    })

    it('uses the server’s clock unless one is given', async () => {
      const bucket = fresh()
      const now = Date.now()
      const wide = { ...config, startsAtMs: now - 60_000, endsAtMs: now + 600_000 }
      await prime(runner, bucket, wide, { epoch: 1, amount: 1, final: true })
      await renewLease(runner, bucket, 60_000, true)
      const reply = await claim(runner, bucket, [of('u')])
      assert.deepEqual(decisions(reply), ['ACCEPTED'])
      assert.ok(Math.abs(reply.nowMs - Date.now()) < 30_000)
    })

    it('ignores older configurations and repeats of the same (case-L1)', async () => {
      const bucket = await open(3)
      const paused = { ...config, state: 'PAUSED' as const, configVersion: 5 }
      assert.equal(await configure(runner, bucket, paused), 'applied')
      assert.equal(await configure(runner, bucket, paused), 'same')
      assert.equal(await configure(runner, bucket, { ...config, configVersion: 4 }), 'stale')
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['PAUSED'])
      assert.equal(await configure(runner, fresh(), paused), 'not_ready')
    })

    it('says BUSY, not SOLD_OUT, while other buckets have stock, and opens a new epoch then', async () => {
      const bucket = await open(0, {}, true)
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['SOLD_OUT'])
      const lease = await renewLease(runner, bucket, 60_000, false, start)
      assert.equal(lease?.epoch, 2)
      const reply = await claim(runner, bucket, [of('u')], start)
      assert.deepEqual([decisions(reply), reply.retryAfterMs], [['BUSY'], 200])
    })

    it('settles once, however often it is told (A4 §15.1-4)', async () => {
      const bucket = await open(3)
      const reply = await claim(runner, bucket, [of('u'), of('v'), of('w')], start)
      const { watermark } = await terms(bucket)
      await target.redis.xreadgroup('GROUP', 'core', 'one', 'STREAMS', logKey(bucket), '>')
      const marks = ['u', 'v', 'w'].map((userId, i) => ({
        userId,
        requestId: reply.verdicts[i]!.requestId!,
        state: (['D', 'X', 'V'] as const)[i]!,
      }))
      assert.deepEqual(await settle(runner, bucket, [watermark], marks), { settled: 2, missing: 0 })
      assert.deepEqual(await settle(runner, bucket, [watermark], marks), { settled: 0, missing: 0 })
      const now = await terms(bucket)
      assert.deepEqual([now.settled, now.entries], [2, 0])
      assert.equal((await target.redis.xpending(logKey(bucket), 'core'))[0], 0)
      assert.deepEqual((await inspect(runner, bucket, 'v'))?.[0]?.state, 'X')
    })

    it('settles a batch of thousands in one call', async () => {
      const bucket = await open(5000)
      const marks: { userId: string; requestId: string; state: 'D' }[] = []
      const ids: string[] = []
      for (let call = 0; call < 40; call++) {
        const users = Array.from({ length: 64 }, (_, i) => `u${call}-${i}`)
        const reply = await claim(
          runner,
          bucket,
          users.map((user) => of(user)),
          start,
        )
        users.forEach((userId, i) => {
          marks.push({ userId, requestId: reply.verdicts[i]!.requestId!, state: 'D' })
        })
        ids.push((await terms(bucket)).watermark)
      }
      assert.deepEqual(await settle(runner, bucket, ids, marks), { settled: 2560, missing: 0 })
      assert.equal((await terms(bucket)).entries, 0)
    })

    it('returns stock once, never a delivered one’s, and frees the user’s place (A4 §15.1-6)', async () => {
      const bucket = await open(2)
      const reply = await claim(runner, bucket, [of('u'), of('v')], start)
      const [u, v] = reply.verdicts.map((verdict) => verdict.requestId!)
      await settle(
        runner,
        bucket,
        [],
        [
          { userId: 'u', requestId: u!, state: 'X' },
          { userId: 'v', requestId: v!, state: 'D' },
        ],
      )
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u'), of('x')], start)), [
        'LIMIT_REACHED',
        'SOLD_OUT',
      ])
      assert.equal(await compensate(runner, bucket, 'u', u!), 'returned')
      assert.equal(await compensate(runner, bucket, 'u', u!), 'already')
      assert.equal(await compensate(runner, bucket, 'v', v!), 'delivered')
      assert.equal(await compensate(runner, bucket, 'nobody', u!), 'missing')
      const now = await terms(bucket)
      assert.deepEqual([now.remaining, now.returned, now.settled, now.epoch], [1, 1, 2, 2])
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['ACCEPTED'])
    })

    it('moves stock between buckets without losing or making any, whatever is repeated (case-A5)', async () => {
      const [a, b] = [await open(10), await open(0)]
      await claim(runner, a, [of('u')], start)
      assert.deepEqual(await withdraw(runner, a, 't1', 4), { outcome: 'moved', amount: 4 })
      assert.deepEqual(await withdraw(runner, a, 't1', 4), { outcome: 'already', amount: 4 })
      assert.deepEqual(await deposit(runner, b, 't1', 4), { outcome: 'moved', amount: 4 })
      assert.deepEqual(await deposit(runner, b, 't1', 4), { outcome: 'already', amount: 4 })
      assert.deepEqual(await withdraw(runner, a, 't2', 100), { outcome: 'moved', amount: 5 })
      assert.deepEqual(await withdraw(runner, a, 't3', 100), { outcome: 'moved', amount: 0 })
      assert.deepEqual(await withdraw(runner, fresh(), 't1', 1), { outcome: 'not_ready' })
      const [left, right] = [await terms(a), await terms(b)]
      assert.deepEqual([left.remaining, left.allocated, left.epoch], [0, 1, 4])
      assert.deepEqual([right.remaining, right.allocated, right.epoch], [4, 4, 2])
    })

    it('reopens a sold-out bucket by a deposit, under a new epoch (CL6)', async () => {
      const bucket = await open(0)
      const before = await claim(runner, bucket, [of('u', { key: 'thekey--1' })], start)
      assert.deepEqual([decisions(before), before.epoch], [['SOLD_OUT'], 1])
      await deposit(runner, bucket, 'increase-1', 1)
      const after = await claim(runner, bucket, [of('u', { key: 'thekey--1' })], start)
      assert.deepEqual([decisions(after), after.epoch], [['ACCEPTED'], 2])
    })

    it('releases by schedule and by pace, and says when to come back (CL19, CL12)', async () => {
      const drip = await open(100, { drip: { initial: 1, atMs: start + 1000, everyMs: 2000, amount: 2 } })
      const ask = async (bucket: typeof drip, ms: number, n: number) => {
        const reply = await claim(
          runner,
          bucket,
          Array.from({ length: n }, () => of(`u${++serial}`)),
          ms,
        )
        return [decisions(reply).filter((decision) => decision === 'ACCEPTED').length, reply.retryAfterMs]
      }
      assert.deepEqual(await ask(drip, start, 5), [1, 1000])
      assert.deepEqual(await ask(drip, start + 999, 5), [0, 1])
      assert.deepEqual(await ask(drip, start + 1000, 5), [2, 2000])
      assert.deepEqual(await ask(drip, start + 5000, 5), [4, 2000])
      const paced = await open(100, { pace: { perSecond: 2, burst: 3 } })
      assert.deepEqual(await ask(paced, start, 5), [3, 500])
      assert.deepEqual(await ask(paced, start + 499, 5), [0, 1])
      assert.deepEqual(await ask(paced, start + 500, 5), [1, 500])
    })

    it('primes once, and refuses to prime where acceptances outlived their gate', async () => {
      const bucket = await open(3)
      await claim(runner, bucket, [of('u')], start)
      assert.equal(await prime(runner, bucket, config, { epoch: 9, amount: 99, final: true }), 'already')
      assert.equal((await terms(bucket)).remaining, 2)
      await target.redis.del(gateKey(bucket))
      assert.equal(await prime(runner, bucket, config, { epoch: 9, amount: 99, final: true }), 'conflict')
      assert.equal(await target.redis.exists(gateKey(bucket)), 0)
    })

    it('rebuilds a bucket from the ledger: closed meanwhile, drained first, replays and limits kept', async () => {
      const bucket = await open(5)
      const reply = await claim(runner, bucket, [of('u', { key: 'thekey--1' }), of('v')], start)
      const records: [string, string][] = []
      for (const user of ['u', 'v']) {
        records.push([user, (await target.redis.hget(usersKey(bucket), user))!.replace(/.$/, 'D')])
      }
      const { watermark } = await terms(bucket)
      await target.redis.del(usersKey(bucket))
      assert.equal(await beginRebuild(runner, bucket), 1)
      assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['NOT_READY'])
      const stock = {
        epoch: 9,
        allocated: 5,
        remaining: 3,
        accepted: 2,
        settled: 2,
        returned: 0,
        final: true,
        moves: [],
      }
      assert.equal(await finishRebuild(runner, bucket, config, stock), 'unsettled')
      await settle(runner, bucket, [watermark], [])
      assert.equal(await loadRecords(runner, bucket, records), 'loaded')
      assert.equal(await finishRebuild(runner, bucket, config, { ...stock, moves: [['t1', 5]] }), 'rebuilt')
      assert.equal(await finishRebuild(runner, bucket, config, stock), 'open')
      assert.equal(await loadRecords(runner, bucket, records), 'open')
      await renewLease(runner, bucket, 60_000, true, start)
      const again = await claim(runner, bucket, [of('u', { key: 'thekey--1' }), of('v'), of('w')], start)
      assert.deepEqual(decisions(again), ['REPLAYED', 'LIMIT_REACHED', 'ACCEPTED'])
      assert.equal(again.verdicts[0]!.requestId, reply.verdicts[0]!.requestId)
      assert.deepEqual([again.epoch, again.remaining], [9, 2])
      assert.deepEqual(await deposit(runner, bucket, 't1', 5), { outcome: 'already', amount: 5 })
    })

    it('keeps a bucket closed that lost records again while it was rebuilt (IS10)', async () => {
      const bucket = await open(5)
      await claim(runner, bucket, [of('u'), of('v')], start)
      const { watermark } = await terms(bucket)
      const records: [string, string][] = []
      for (const user of ['u', 'v']) records.push([user, (await target.redis.hget(usersKey(bucket), user))!])
      await target.redis.del(logKey(bucket))
      await beginRebuild(runner, bucket)
      await loadRecords(runner, bucket, records)
      await target.redis.del(usersKey(bucket))
      const settled = { epoch: 9, allocated: 5, remaining: 3, accepted: 2, settled: 2, returned: 0 }
      const stock = { ...settled, final: true, moves: [], users: 2, watermark }
      assert.equal(await finishRebuild(runner, bucket, config, stock), 'incomplete')
      await loadRecords(runner, bucket, records)
      assert.equal(await finishRebuild(runner, bucket, config, stock), 'rebuilt')
      // A log that begins anew goes on where the ledger's knowledge ends.
      assert.deepEqual(
        [(await terms(bucket)).watermark, await target.redis.xlen(logKey(bucket))],
        [watermark, 0],
      )
    })

    it('takes a lost acceptance up again by its receipt, once, within limit and stock (CL15)', async () => {
      const bucket = await open(2)
      const record = (user: string) => `${packTime(start)}${of(user).packed}`
      const lost = record('u')
      assert.equal(await honour(runner, bucket, 'u', lost), 'accepted')
      assert.equal(await honour(runner, bucket, 'u', lost), 'already')
      assert.equal(await honour(runner, bucket, 'u', record('u')), 'limit')
      assert.equal(await honour(runner, bucket, 'v', record('v')), 'accepted')
      assert.equal(await honour(runner, bucket, 'w', record('w')), 'sold_out')
      const { remaining, accepted, entries } = await terms(bucket)
      assert.deepEqual([remaining, accepted, entries], [0, 2, 2])
      await beginRebuild(runner, bucket)
      assert.equal(await honour(runner, bucket, 'x', record('x')), 'not_ready')
    })

    it('records ballot entries like claims, but takes no stock', async () => {
      const bucket = await open(2)
      const entries = [of('u', { key: 'thekey--1', token: 'thetoken1' }), of('v'), of('w'), of('u')]
      const reply = await enterBallot(runner, bucket, entries.map(asEntry), start)
      assert.deepEqual(decisions(reply), ['ACCEPTED', 'ACCEPTED', 'ACCEPTED', 'LIMIT_REACHED'])
      const again = [
        of('u', { key: 'thekey--1' }),
        of('u', { key: 'thekey--1', params: 'par2' }),
        of('u', { token: 'thetoken1' }),
      ]
      assert.deepEqual(decisions(await enterBallot(runner, bucket, again.map(asEntry), start)), [
        'REPLAYED',
        'IDEMPOTENCY_MISMATCH',
        'TOKEN_USED',
      ])
      assert.deepEqual(decisions(await enterBallot(runner, bucket, [asEntry(of('x'))], end)), ['ENDED'])
      assert.deepEqual((await terms(bucket)).remaining, 2)
      const [first] = (await target.redis.xrange(logKey(bucket), '-', '+')) as [string, string[]][]
      assert.equal(parseEntry(...first!).kind, 'ballot')
      assert.equal(await compensate(runner, bucket, 'u', reply.verdicts[0]!.requestId!), 'entry')
    })

    describe('leaves nothing behind when it fails', () => {
      for (const spoiled of ['gate', 'users', 'log'] as const) {
        it(`because ${spoiled} has another type`, async () => {
          const bucket = await open(5)
          const keys = { gate: gateKey(bucket), users: usersKey(bucket), log: logKey(bucket) }
          await target.redis.del(keys[spoiled])
          await target.redis.set(keys[spoiled], 'text')
          const before = await picture(bucket)
          await assert.rejects(claim(runner, bucket, [of('u')], start), isRefusal)
          await assert.rejects(enterBallot(runner, bucket, [of('u')], start), isRefusal)
          assert.deepEqual(await picture(bucket), before)
        })
      }

      it('because the consumer group is missing: accepting goes on, nothing is lost', async () => {
        const bucket = await open(5)
        await target.redis.xgroup('DESTROY', logKey(bucket), 'core')
        assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['ACCEPTED'])
        assert.equal((await terms(bucket)).entries, 1)
      })

      it('because the scripts were flushed: loaded again, run once (case-H6)', async () => {
        const bucket = await open(5)
        const nodes = 'nodes' in target.redis ? target.redis.nodes('master') : [target.redis]
        await Promise.all(nodes.map((node) => node.script('FLUSH')))
        assert.deepEqual(decisions(await claim(runner, bucket, [of('u')], start)), ['ACCEPTED'])
        assert.equal((await terms(bucket)).accepted, 1)
      })

      async function picture(bucket: { campaignId: string; bucket: number }) {
        const keys = [gateKey(bucket), usersKey(bucket), logKey(bucket), movesKey(bucket)]
        // Contents, not DUMP: a hash table that is being resized changes its order by being read.
        return Promise.all(
          keys.map(async (key) => {
            const type = await target.redis.type(key)
            if (type === 'hash') return Object.entries(await target.redis.hgetall(key)).sort()
            if (type === 'stream') return target.redis.xrange(key, '-', '+')
            return type === 'string' ? target.redis.get(key) : type
          }),
        )
      }
      const isRefusal = (error: unknown) => error instanceof ArbiterError && error.failure === 'refused'
    })
  })
}

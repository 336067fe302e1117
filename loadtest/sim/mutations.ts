/** A planted fault: the product's text is changed on its way into the simulation. */
export interface Mutation {
  readonly name: string
  readonly about: string
  /** Of the product's TypeScript, or of a script. */
  readonly file: string
  /** Stands there exactly once. */
  readonly find: string
  readonly replace: string
  /** It must be caught within so many seeds, from the first. */
  readonly seeds: number
}

const alreadyMoved = "if done then return 'already ' .. string.gsub(done, '[+-]', '') end"

export const mutations: readonly Mutation[] = [
  {
    name: 'ack-before-commit',
    about: 'the drain acknowledges entries before their claims stand in the ledger',
    file: 'core/claim/deliver.ts',
    find: '  await issueOrSplit(ctx, bucket, group, careful, sum, dead)\n  for (',
    replace:
      '  await settleStubbornly(ctx, bucket, group, [])\n  await issueOrSplit(ctx, bucket, group, careful, sum, dead)\n  for (',
    seeds: 100,
  },
  {
    name: 'compensation-on-timeout',
    about: 'a commit without an answer counts as failed, and its stock is given back',
    file: 'core/claim/deliver.ts',
    find: "      ctx.noteDatabase(failure === 'away')",
    replace: `      ctx.noteDatabase(failure === 'away')
      if (failure === 'away') {
        const { compensate } = await import('../../lua/stock.ts')
        for (const { userId, requestId } of group.claims)
          await compensate(ctx.runner, bucket, userId, requestId).catch(() => undefined)
      }`,
    seeds: 100,
  },
  {
    name: 'limit-after-stock',
    about: 'stock is taken before the user’s limit is looked at',
    file: 'lua/scripts/claim-3.lua',
    find: "elseif held >= limit then letter = 'L'",
    replace: "elseif held >= limit then letter = 'L' redis.call('HINCRBY', gate_key, 'remaining', -1)",
    seeds: 50,
  },
  {
    name: 'marker-without-epoch',
    about:
      'who has an acceptance is not asked for anew when a sold-out bucket was refilled and sold out again',
    file: 'edge/soldOut.ts',
    find: 'if (reply.epoch !== marker.epoch) {',
    replace: 'if (marker.epoch === -1) {',
    seeds: 300,
  },
  {
    name: 'marker-outlives-refill',
    about: 'SOLD_OUT is said from memory for half a minute, whatever comes back',
    file: 'edge/bounds.ts',
    find: 'soldOutFreshMs: 350',
    replace: 'soldOutFreshMs: 30_000, soldOutHoldsMs: 30_000',
    seeds: 100,
  },
  {
    name: 'deposit-twice',
    about: 'a deposit whose answer was lost is done again',
    file: 'lua/scripts/deposit-2.lua',
    find: alreadyMoved,
    replace: '',
    seeds: 150,
  },
  {
    name: 'withdraw-twice',
    about: 'a withdrawal whose answer was lost is done again',
    file: 'lua/scripts/withdraw-2.lua',
    find: alreadyMoved,
    replace: '',
    seeds: 100,
  },
  {
    name: 'replay-ignored',
    about: 'a repeated key is not recognised',
    file: 'lua/scripts/claim-3.lua',
    find: 'if sub(record, at + 21, at + 29) == key then',
    replace: 'if false then',
    seeds: 20,
  },
  {
    name: 'token-reuse-unseen',
    about: 'a token is good for a second acceptance under another key',
    file: 'lua/scripts/claim-3.lua',
    find: "if not letter and token_used then letter = 'T' end",
    replace: '',
    seeds: 150,
  },
  {
    name: 'lease-ignored',
    about: 'a bucket accepts without a lease',
    file: 'lua/scripts/claim-3.lua',
    find: "elseif now >= tonumber(gate[9]) then closed = 'B'\n",
    replace: '',
    seeds: 20,
  },
  {
    name: 'rebuild-forgets-acceptances',
    about: 'a rebuilt gate has what it was given, and not what is left of it',
    file: 'core/recovery/rebuild.ts',
    find: 'allocated - accepted + returned',
    replace: 'allocated + returned',
    seeds: 50,
  },
  {
    name: 'rebuild-forgets-keys',
    about: 'a rebuilt gate does not know under which keys was accepted',
    file: 'core/recovery/ledger.ts',
    find: 'keyFingerprint: row.key_fingerprint',
    replace: 'keyFingerprint: row.token_id',
    seeds: 200,
  },
  {
    name: 'event-marked-before-told',
    about: 'events are marked as published first, and told when there is time',
    file: 'core/notify/publisher.ts',
    find: `      await redis.publish(resultsChannel, encodeEvents(events.slice(at, at + messageEventsMax)))`,
    replace: `      setTimeout(() => {
        redis.publish(resultsChannel, encodeEvents(events.slice(at, at + messageEventsMax))).catch(() => undefined)
      }, 5)`,
    seeds: 200,
  },
  {
    name: 'honour-without-stock',
    about: 'a receipt is honoured whatever is left',
    file: 'lua/scripts/honour-3.lua',
    find: "if tonumber(gate[4]) <= 0 then return 'sold_out' end",
    replace: '',
    seeds: 200,
  },
  {
    name: 'dead-consumer-forgotten',
    about: 'entries that a dead process had in hand are nobody’s',
    file: 'core/claim/drain.ts',
    find: 'for (const bucket of open) await this.#perLog(bucket, () => recoverStale(this.#recovery, bucket))',
    replace: '',
    seeds: 150,
  },
  {
    name: 'returned-twice',
    about: 'a compensation whose answer was lost gives the stock back again',
    file: 'lua/scripts/compensate-2.lua',
    find: "if old == 'R' then return 'already' end",
    replace: '',
    seeds: 300,
  },
  {
    name: 'answers-crossed',
    about: 'the claims of a call get each other’s answers',
    file: 'edge/groupCommit.ts',
    find: 'verdict: reply.verdicts[i]!',
    replace: 'verdict: reply.verdicts[claims.length - 1 - i]!',
    seeds: 100,
  },
  {
    name: 'missed-while-away',
    about: 'what was published while a subscription was broken is not read afterwards',
    file: 'core/notify/hub.ts',
    find: 'await catchUp(deps, followers, heardUntilMs - overlapMs)',
    replace: '',
    seeds: 300,
  },
]

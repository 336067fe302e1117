import assert from 'node:assert/strict'
import { test } from 'node:test'
import postgres from 'postgres'
import { startStack } from '../../stack/stack.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { main } from './command.ts'
import { boundBy, kindOf } from './cpu.ts'
import { runSetup } from './run.ts'
import { setups } from './setups.ts'

test('what was at its limit is the machine, else a process with a CPU for itself, else nothing', () => {
  const use = (processes: Record<string, number>, machine: number | undefined) =>
    boundBy({ processes, machine, cpus: 4 })
  assert.match(
    use({ edge: 1, 'edge-2': 0.8, redis: 0.5 }, 3.8),
    /^the machine \(3\.80 of 4 CPUs in use: worker 1\.80/,
  )
  assert.match(use({ edge: 0.95, redis: 0.5 }, 1.5), /^one worker process/)
  assert.match(use({ edge: 0.5, redis: 0.97 }, 1.5), /^one redis process/)
  // Two workers that share the load are each below a CPU; the postmaster stands for many processes.
  assert.match(use({ edge: 0.6, 'edge-2': 0.6, postgres: 1.4 }, 2.6), /^none: waiting/)
  assert.match(use({ edge: 0.1 }, 3.9), /^the machine .*others on this machine 3\.80/)
  assert.match(use({ edge: 1 }, undefined), /^not known/)
  assert.deepEqual(['edge', 'edge-2', 'redis-node-3', 'gateway-two', 'driver'].map(kindOf), [
    ...['worker', 'worker', 'redis', 'gateway', 'driver'],
  ])
})

test('a name or a number that it does not know ends it with 2', async () => {
  for (const args of [['buckets-3'], ['--claims', 'many'], ['--connections', '0'], ['--fast']])
    assert.equal(await main(args), 2)
})

test('a campaign of eight buckets on a cluster is measured and audited, and a coupon too many is found', {
  timeout: 300_000,
}, async () => {
  const setup = setups.find(({ name }) => name === 'cluster-8-buckets')!
  const stack = await startStack({ dir: temporaryFolder('scale-run'), scale: setup.stack })
  const sql = postgres(stack.endpoints.postgres, { max: 1, onnotice: () => undefined })
  try {
    const options = { claims: 200, connections: 16, progress: () => undefined }
    const sound = await runSetup(stack, setup, options)
    assert.deepEqual(sound.violations, [])
    assert.equal(sound.settings['claims'], 200)
    assert.ok(sound.claims_per_second > 0 && sound.delivered_per_second > 0)
    // An accepting call has seven commands: no claim costs more than a call of its own, with its delivery.
    assert.ok(sound.commands_per_claim > 0.2 && sound.commands_per_claim < 40, `${sound.commands_per_claim}`)

    const meddled = await runSetup(stack, setup, {
      ...options,
      async meddle([campaignId]) {
        await sql`
          INSERT INTO coupons
          SELECT user_id, gen_random_uuid(), campaign_id, claim_seq + 1, gen_random_uuid(), rule_version, valid_from,
            valid_to, state, version, issued_at, updated_at
          FROM coupons WHERE campaign_id = ${campaignId!} LIMIT 1`
      },
    })
    assert.match(meddled.violations.join('\n'), /^2: 1 users have more coupons than the limit$/m)
  } finally {
    await sql.end({ timeout: 5 })
    await stack.stop()
  }
})

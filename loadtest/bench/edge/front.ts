import { createHmac, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { tcpRunner } from '../../../lua/runner.ts'
import { prime, renewLease } from '../../../lua/stock.ts'
import { makeCampaignId } from '../../../schema/campaignId.ts'
import { type Keyring, parseKeyring } from '../../../schema/sealed.ts'
import type { CampaignSnapshot } from '../../../schema/view.ts'
import { type Service, startService } from '../../../stack/service.ts'
import { type Stack, startStack } from '../../../stack/stack.ts'
import { CoreDouble } from '../../../tests/edge/coreDouble.ts'

const macFor = (secret: string) => (text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url')

/**
 * The gate before a real Redis behind the gateway, and the two yardsticks beside it. Of the core there is only what
 * campaigns are read from: draining has its own bench, and would take its share of the machine here.
 */
export interface Front {
  stack: Stack
  bare: Service
  grouped: Service
  redis: Redis
  ring: Keyring
  /** A campaign that is open with this stock, in one bucket. */
  campaign(quota: number): Promise<string>
  stop(): Promise<void>
}

export async function startFront(dir: string, say: (line: string) => void): Promise<Front> {
  // The double checks what the gate sends it by the stack's own key, which is made when the stack starts.
  let edgeCore: Keyring | undefined
  const core = new CoreDouble({
    currentKid: 'k1',
    all: [],
    mac: (kid) => edgeCore?.mac(kid),
  })
  await core.start()
  const stack = await startStack({
    dir,
    only: ['redis', 'gateway', 'edge'],
    env: { edge: { CORE_URL: core.url } },
    redis: { appendfsync: 'everysec' },
    // Of all workers here alike, the engine is as it comes: rates are what counts.
    workerV8Flags: '',
    progress: say,
  })
  edgeCore = parseKeyring('EDGE_CORE_KEYS', stack.keys.edgeCoreKeys, macFor)
  const bare = await startYardstick('bare', dir)
  const grouped = await startYardstick('grouped', dir, {
    REST_URL: stack.endpoints.gateway,
    REST_TOKEN: stack.keys.gatewayToken,
  })
  const redis = new Redis(stack.endpoints.redis)
  return {
    stack,
    bare,
    grouped,
    redis,
    ring: parseKeyring('CLAIM_TOKEN_KEYS', stack.keys.claimTokenKeys, macFor),
    async campaign(quota) {
      const ids = parseKeyring('CAMPAIGN_ID_KEYS', stack.keys.campaignIdKeys, macFor)
      const snapshot = snapshotOf(makeCampaignId(randomBytes(16), ids))
      core.campaigns.set(snapshot.id, snapshot)
      const runner = tcpRunner(redis as never)
      const bucket = { campaignId: snapshot.id, bucket: 0 }
      const config = {
        configVersion: 1,
        state: 'ACTIVE' as const,
        ruleVersion: 1,
        startsAtMs: snapshot.starts_at_ms,
        endsAtMs: snapshot.ends_at_ms,
        perUserLimit: 1,
      }
      await prime(runner, bucket, config, { epoch: 1, amount: quota, final: true })
      await renewLease(runner, bucket, 3_600_000, true)
      return snapshot.id
    },
    async stop() {
      redis.disconnect()
      await bare.stop()
      await grouped.stop()
      await stack.stop()
      await core.stop()
    },
  }
}

/** One of the workers in ../bare and ../grouped. */
function startYardstick(name: string, dir: string, bindings: Record<string, string> = {}): Promise<Service> {
  return startService({
    name,
    file: 'stack/worker.ts',
    dir,
    env: {
      TMPDIR: dir,
      WORKER_CONFIG: join(import.meta.dirname, '..', name, 'wrangler.toml'),
      WORKER_CACHE: join(dir, 'bundles'),
      WORKER_BINDINGS: JSON.stringify(bindings),
      WORKER_V8_FLAGS: '',
    },
  })
}

function snapshotOf(id: string): CampaignSnapshot {
  return {
    id,
    name: 'Bench',
    mode: 'first_come',
    state: 'ACTIVE',
    config_version: 1,
    starts_at_ms: Date.now() - 60_000,
    ends_at_ms: Date.now() + 3_600_000,
    per_user_limit: 1,
    bucket_count: 1,
    benefit: { kind: 'fixed_price', price: { currency: 'CNY', minor: '990' } },
    validity: { kind: 'days', days: 7 },
    time_zone: 'Asia/Shanghai',
    sold_out: false,
  }
}

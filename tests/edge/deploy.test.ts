import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { unstable_readConfig } from 'wrangler'
import { OFFLINE } from '../../stack/bundle.ts'
import { inheritedEnvironment } from '../../stack/host.ts'
import { runCommand } from '../../stack/run-command.ts'
import { temporaryFolder } from '../../stack/testing.ts'

/** What we look at of a parsed wrangler.toml. */
interface Read {
  analytics_engine_datasets?: { binding: string }[]
  ratelimits?: { name: string }[]
  assets?: { binding: string }
  placement?: { mode: string }
  secrets?: { required: string[] }
  vars: Record<string, unknown>
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const config = join(ROOT, 'wrangler.toml')
const environments = ['staging', 'production']

for (const name of environments)
  test(`the gate can be deployed to ${name}: wrangler bundles it as it would for the deployment`, async () => {
    // The page is built by another command; the bundler wants its folder to be there.
    mkdirSync(join(ROOT, 'edge', 'site', 'public'), { recursive: true })
    const wrangler = join(ROOT, 'node_modules', 'wrangler', 'bin', 'wrangler.js')
    const args = [wrangler, 'deploy', '--dry-run', '--config', config, '--env', name]
    const { code, output } = await runCommand(
      process.execPath,
      [...args, '--outdir', temporaryFolder('deploy')],
      {
        cwd: ROOT,
        env: { ...inheritedEnvironment(), ...OFFLINE, CI: 'true', NO_COLOR: '1' },
        timeoutMs: 120_000,
      },
    )
    assert.equal(code, 0, output)
    assert.doesNotMatch(output, /WARNING/)
  })

test('each environment has the bindings of the local one, secrets by name, and runs near Redis', () => {
  const bindingsOf = (env?: string) => {
    const read: Read = unstable_readConfig({ config, ...(env === undefined ? {} : { env }) })
    return {
      read,
      names: [
        ...(read.analytics_engine_datasets ?? []).map(({ binding }) => binding),
        ...(read.ratelimits ?? []).map((limit) => limit.name),
        read.assets?.binding,
      ],
    }
  }
  const local = bindingsOf().names
  for (const env of environments) {
    const { read, names } = bindingsOf(env)
    assert.deepEqual(names, local, env)
    assert.equal(read.placement?.mode, 'smart')
    const secrets = read.secrets?.required ?? []
    for (const secret of ['UPSTASH_REDIS_REST_TOKEN', 'CLAIM_TOKEN_KEYS', 'RECEIPT_KEYS', 'EDGE_CORE_KEYS'])
      assert.ok(secrets.includes(secret), `${env}: ${secret}`)
    assert.ok(!secrets.some((secret) => secret in read.vars), 'a secret is not a var')
  }
})

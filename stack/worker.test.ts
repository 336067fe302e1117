import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startService } from './service.ts'
import { temporaryFolder } from './testing.ts'

const CONFIG = `
name = "tiny"
main = "src/worker.ts"
compatibility_date = "2026-11-01"
compatibility_flags = ["nodejs_compat"]
[assets]
directory = "./public"
binding = "ASSETS"
run_worker_first = ["/v1/*"]
not_found_handling = "404-page"
[vars]
FROM_CONFIG = "config"
[[ratelimits]]
name = "LIMITER"
namespace_id = "1001"
simple = { limit = 2, period = 60 }
`

const WORKER = `
import { createHmac } from 'node:crypto'
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url)
    if (pathname.startsWith('/v1/limited/')) return Response.json(await env.LIMITER.limit({ key: pathname }))
    if (pathname === '/v1/about')
      return Response.json({
        bound: env.BOUND,
        configured: env.FROM_CONFIG,
        mac: createHmac('sha256', 'k').update('t').digest('hex').slice(0, 6),
        runtime: navigator.userAgent,
        address: request.headers.get('CF-Connecting-IP'),
      })
    return env.ASSETS.fetch(request)
  },
}
`

function tinyWorker(): { config: string; cache: string; dir: string } {
  const folder = temporaryFolder('worker')
  mkdirSync(join(folder, 'app', 'src'), { recursive: true })
  mkdirSync(join(folder, 'app', 'public'))
  writeFileSync(join(folder, 'app', 'wrangler.toml'), CONFIG)
  writeFileSync(join(folder, 'app', 'src', 'worker.ts'), WORKER)
  writeFileSync(join(folder, 'app', 'public', 'index.html'), '<h1>page</h1>')
  writeFileSync(join(folder, 'app', 'public', '404.html'), '<h1>no such page</h1>')
  symlinkSync(fileURLToPath(new URL('../node_modules', import.meta.url)), join(folder, 'app', 'node_modules'))
  return {
    config: join(folder, 'app', 'wrangler.toml'),
    cache: join(folder, 'cache'),
    dir: join(folder, 'run'),
  }
}

/** Three questions to the limit in one of its periods, which are the clock's minutes: asked again where one ends. */
async function thriceInAMinute(get: (path: string) => Promise<Response>): Promise<boolean[]> {
  for (let key = 0; ; key++) {
    const minute = Math.floor(Date.now() / 60_000)
    const limited: boolean[] = []
    for (let i = 0; i < 3; i++)
      limited.push(((await (await get(`/v1/limited/${key}`)).json()) as { success: boolean }).success)
    if (Math.floor(Date.now() / 60_000) === minute) return limited
  }
}

test('the worker runs in workerd with its bindings, and one address serves API and assets', async (t) => {
  const { config, cache, dir } = tinyWorker()
  const tmp = temporaryFolder('worker-tmp')
  const start = () =>
    startService({
      name: 'edge',
      file: 'stack/worker.ts',
      dir,
      env: {
        TMPDIR: tmp,
        WORKER_CONFIG: config,
        WORKER_CACHE: cache,
        WORKER_BINDINGS: JSON.stringify({ BOUND: 'here' }),
      },
    })
  const worker = await start()
  t.after(() => worker.kill())
  const get = (path: string, init?: RequestInit) => fetch(worker.url + path, init)
  const about = await get('/v1/about', { headers: { 'CF-Connecting-IP': '2001:db8::1' } })
  assert.deepEqual(await about.json(), {
    bound: 'here',
    configured: 'config',
    mac: createHmac('sha256', 'k').update('t').digest('hex').slice(0, 6),
    runtime: 'Cloudflare-Workers',
    address: '2001:db8::1',
  })
  assert.equal(await (await get('/')).text(), '<h1>page</h1>')
  const missing = await get('/none')
  assert.deepEqual([missing.status, await missing.text()], [404, '<h1>no such page</h1>'])
  assert.deepEqual(await thriceInAMinute(get), [true, true, false])
  await worker.stop()
  assert.deepEqual(readdirSync(tmp), [])
  await assert.rejects(get('/v1/about'))

  writeFileSync(
    join(config, '..', 'src', 'worker.ts'),
    'export default { fetch: () => new Response("changed") }',
  )
  const changed = await start()
  t.after(() => changed.kill())
  assert.equal(await (await fetch(changed.url)).text(), 'changed')
})

test('a worker that does not bundle says why, in the words of the bundler', async () => {
  const { config, cache, dir } = tinyWorker()
  writeFileSync(join(config, '..', 'src', 'worker.ts'), "import './missing.ts'")
  const env = { WORKER_CONFIG: config, WORKER_CACHE: cache }
  await assert.rejects(startService({ name: 'edge', file: 'stack/worker.ts', dir, env }), /missing\.ts/)
})

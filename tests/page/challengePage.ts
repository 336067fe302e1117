import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSite } from '../../edge/site/build.ts'
import { TurnstileDouble } from '../edge/turnstileDouble.ts'
import { type Campaign, World } from '../edge/world.ts'
import { WidgetDouble } from './widgetDouble.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The gate with a site key: its page, the real worker, and both sides of Turnstile as doubles. */
export interface ChallengePage {
  world: World
  turnstile: TurnstileDouble
  widget: WidgetDouble
  /** A campaign whose claim tokens ask for the check. */
  campaign(startsInMs: number): Promise<Campaign>
  address(campaign: Campaign, user: string): Promise<string>
  stop(): Promise<void>
}

export const siteKey = '0x4AAAAAAAexample'

/** @param name of its folder: files that run side by side have a script of their own each. */
export async function startChallengePage(name: string): Promise<ChallengePage> {
  const turnstile = new TurnstileDouble()
  const widget = new WidgetDouble(turnstile)
  await Promise.all([turnstile.start(), widget.start()])
  const world = await World.start({
    config: await configFor(name, widget.script),
    bindings: {
      TURNSTILE_SECRET: turnstile.secret,
      TURNSTILE_SITE_KEY: siteKey,
      TURNSTILE_VERIFY_URL: turnstile.url,
      TURNSTILE_HOSTNAMES: '127.0.0.1',
    },
  })
  return {
    world,
    turnstile,
    widget,
    async campaign(startsInMs) {
      const made = await world.campaign({ startsInMs })
      made.snapshot.guards = { turnstile: true }
      return made
    },
    address: async ({ id }, user) => `${world.url}/c/${id}#login=${await world.login(user)}`,
    async stop() {
      await world.stop()
      await Promise.all([turnstile.stop(), widget.stop()])
    },
  }
}

/** The repository's settings for a page that was built with this script. The folder stays, so its bundle is kept. */
async function configFor(name: string, script: string): Promise<string> {
  const folder = join(root, '.tidegate', `page-${name}`)
  const site = join(folder, 'public')
  await buildSite(site, script)
  const toml = await readFile(join(root, 'wrangler.toml'), 'utf8')
  const config = join(folder, 'wrangler.toml')
  await mkdir(folder, { recursive: true })
  await writeFile(
    config,
    toml
      .replace('main = "edge/worker.ts"', `main = ${JSON.stringify(join(root, 'edge', 'worker.ts'))}`)
      .replace('directory = "edge/site/public"', `directory = ${JSON.stringify(site)}`),
  )
  return config
}

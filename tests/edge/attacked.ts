import assert from 'node:assert/strict'
import { packTime, requestIdOf, userTag } from '../../schema/acceptance.ts'
import { sealTicket } from '../../schema/tokens.ts'
import { type Answer, type Campaign, World } from './world.ts'

/** A world with a campaign and one claim token of ann's that was not used yet. */
export class Attacked {
  readonly world: World
  readonly campaign: Campaign
  readonly token: string

  constructor(world: World, campaign: Campaign, token: string) {
    this.world = world
    this.campaign = campaign
    this.token = token
  }

  static async start(): Promise<Attacked> {
    const world = await World.start()
    const campaign = await world.campaign()
    return new Attacked(world, campaign, await world.token(campaign, 'ann'))
  }

  /** The core has heard nothing yet, and answers everything with an empty object. */
  reset(): void {
    this.world.core.calls.length = 0
    this.world.core.answer = (_, response) =>
      response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
  }

  async bearer(user: string): Promise<Record<string, string>> {
    return { Authorization: `Bearer ${await this.world.login(user)}` }
  }

  ticket(requestId: string, user: string): string {
    const ticket = { campaignId: this.campaign.id, bucket: 0, requestId, userId: user }
    return sealTicket(ticket, this.world.ring('receiptKeys'))
  }

  /** All requests that the core got on behalf of a user; it also tells the gate of campaigns. */
  personalCalls() {
    return this.world.core.calls.filter(({ userId }) => userId !== '')
  }

  /** Whatever is done meanwhile, the arbiter accepts nothing and the core is asked for nobody. */
  async assertUntouched(act: () => Promise<void>): Promise<void> {
    const { accepted } = await this.world.bucket(this.campaign)
    await act()
    assert.equal((await this.world.bucket(this.campaign)).accepted, accepted)
    assert.deepEqual(this.personalCalls(), [])
  }
}

/** A request id that can be this user's. */
export function requestOf(user: string, atMs = Date.now()): string {
  return requestIdOf(`${packTime(atMs)}-bbbbbbbbb${userTag(user)}`)
}

export function assertCode(answer: Answer, status: number, code: string, what = ''): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], `${what} ${answer.text}`)
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
}

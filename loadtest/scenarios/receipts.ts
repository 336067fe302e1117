import { until } from '../../stack/process.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import type { Acceptance } from './visitor.ts'
import type { World } from './world.ts'

const atOnce = 8
const takenWithinMs = 20_000

/** After a loss of Redis: clients show the receipts of acceptances that nobody else remembers (CL15). */
export async function presentReceipts(world: World, lost: readonly Acceptance[]): Promise<void> {
  const { client, stack } = world
  await closedLoop(lost.length, atOnce, async (i) => {
    const { userId, receipt } = lost[i]!
    const request = client.encode(
      'POST',
      '/v1/receipts',
      {
        Authorization: `Bearer ${await stack.mintLogin({ user: userId })}`,
        'Content-Type': 'application/json',
      },
      JSON.stringify({ receipt }),
    )
    let last = 'no answer'
    const taken = async () => {
      const reply = await client.send(request).catch(() => undefined)
      if (reply !== undefined) last = `${reply.status} ${reply.body.slice(0, 200)}`
      return reply?.status === 200
    }
    await until(taken, 'a receipt is not taken', takenWithinMs, 200).catch((error: Error) => {
      throw new Error(`${error.message}: ${last}`)
    })
  })
}

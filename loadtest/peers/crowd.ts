import { setTimeout as pause } from 'node:timers/promises'
import type { HttpClient, Reply } from '../traffic/client.ts'
import { openLoop } from '../traffic/openLoop.ts'

/** One press of the button: the same request again is a repetition under the same key. */
export interface Press {
  readonly userId: string
  readonly request: Buffer
}

/** What an answer means to a client, whatever the design calls it. */
export type Heard = 'yes' | 'no' | 'again'

export interface CrowdWish {
  /** Each user's first press, in order of arrival. */
  readonly presses: readonly Press[]
  /** Of the same users under another key; sent by every twentieth user as well. */
  readonly others: readonly Press[]
  readonly perSecond: number
  /** How long a user goes on pressing without a final word. */
  readonly patienceMs: number
  hear(press: Press, reply: Reply): Heard
}

export interface CrowdResult {
  readonly promised: ReadonlySet<string>
  /** When each yes was heard, in order (performance.now() scale). */
  readonly yesAt: readonly number[]
  readonly no: number
  /** Presses without a final answer in time. */
  readonly unanswered: number
}

const againMs = 150
const secondPressMs = 40
const repeaterEvery = 10

/**
 * Open loop: users press at their own times. After a broken connection or a 503 they press again under the same key
 * until they hear a final word, every tenth presses twice anyway, and every twentieth tries a second key.
 */
export async function sendCrowd(client: HttpClient, wish: CrowdWish): Promise<CrowdResult> {
  const promised = new Set<string>()
  const yesAt: number[] = []
  const counts = { no: 0, unanswered: 0 }
  const press = async (one: Press) => {
    const until = Date.now() + wish.patienceMs
    for (;;) {
      const heard = await client.send(one.request).then(
        (reply) => wish.hear(one, reply),
        (): Heard => 'again',
      )
      if (heard === 'yes') {
        promised.add(one.userId)
        return void yesAt.push(performance.now())
      }
      if (heard === 'no') return void counts.no++
      if (Date.now() > until) return void counts.unanswered++
      await pause(againMs * (0.5 + Math.random()))
    }
  }
  await openLoop(wish.presses.length, wish.perSecond, async (i) => {
    const first = press(wish.presses[i]!)
    const more: Promise<void>[] = []
    if (i % repeaterEvery === 0) more.push(pause(secondPressMs).then(() => press(wish.presses[i]!)))
    if (i % (2 * repeaterEvery) === 1) more.push(pause(secondPressMs).then(() => press(wish.others[i]!)))
    await Promise.all([first, ...more])
  })
  return { promised, yesAt, ...counts }
}

import { limits } from '../../schema/limits.ts'
import { findCampaign } from '../campaigns/read.ts'
import { causeOf } from '../claim/failures.ts'
import { makeAlarm, within } from '../claim/patience.ts'
import { openRuleBook } from '../claim/rules.ts'
import type { Running } from '../deps.ts'
import { type DrawDeps, draw, whyNotRipe } from './draw.ts'
import { cancelBallot, type SettleDeps, settleBallot } from './settle.ts'

/** Draws ballots that nobody has drawn some time after their end, and carries out draws. */
export interface BallotKeeper extends Running {
  /** A draw was made. */
  wake(): void
}

const lookEveryMs = 1_000
const stopMs = 5_000

/** @param onSettled told after results were written to the outbox. */
export function startBallotKeeper(given: DrawDeps, onSettled: () => void): BallotKeeper {
  const deps: SettleDeps = {
    ...given,
    log: given.log.child({ part: 'ballot' }),
    ruleBook: openRuleBook(given.db.admin),
  }
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)

  async function run(): Promise<void> {
    while (!abort.signal.aborted) {
      try {
        if ((await ballotRound(deps)) > 0) onSettled()
      } catch (error) {
        deps.log.warn({ cause: causeOf(error) }, 'ballots could not be looked at; the next round tries again')
      }
      await alarm.wait(lookEveryMs)
    }
  }

  const running = run()
  return {
    wake: alarm.wake,
    async stop() {
      abort.abort()
      await within(running, stopMs, 'stopping the ballots’ keeper').catch((error) =>
        deps.log.warn({ cause: causeOf(error) }, 'the ballots’ keeper did not end in order'),
      )
    },
  }
}

interface Due {
  campaign_id: string
  task: 'draw' | 'settle' | 'cancel'
}

/** @returns how many ballots were settled or cancelled. */
export async function ballotRound(deps: SettleDeps): Promise<number> {
  let finished = 0
  for (const { campaign_id: campaignId, task } of await findDue(deps)) {
    try {
      if (task === 'draw' && !(await drawIfRipe(deps, campaignId))) continue
      if (task === 'cancel') await cancelIfQuiet(deps, campaignId)
      else await settleBallot(deps, campaignId)
      finished++
    } catch (error) {
      deps.log.warn({ campaign_id: campaignId, cause: causeOf(error) }, `a ballot’s ${task} is tried again`)
    }
  }
  return finished
}

/** A paused campaign's ballot waits for a person. */
async function findDue({ db, clock }: SettleDeps): Promise<Due[]> {
  const drawFrom = new Date(clock() - limits.ballotDrawDelayMs)
  return db.admin.sql<Due[]>`
    SELECT c.campaign_id,
      CASE WHEN b.state = 'DRAWN' THEN 'settle' WHEN c.state = 'VOIDED' THEN 'cancel' ELSE 'draw' END AS task
    FROM ballots b JOIN campaigns c USING (campaign_id)
    WHERE b.state = 'DRAWN' OR (b.state = 'OPEN' AND (c.state = 'VOIDED'
      OR (c.state = 'ACTIVE' AND c.ends_at <= ${drawFrom})
      OR (c.state = 'ENDED' AND c.updated_at <= ${drawFrom})))`
}

async function drawIfRipe(deps: SettleDeps, campaignId: string): Promise<boolean> {
  const { orm } = deps.db.admin
  const found = await findCampaign(orm, campaignId)
  const why = await whyNotRipe(deps, found!.campaign)
  if (why !== undefined) {
    deps.log.warn({ campaign_id: campaignId, why }, 'a ballot waits for its draw')
    return false
  }
  await orm.transaction((tx) => draw(tx, campaignId, new Date(deps.clock())))
  return true
}

/** While entries are on their way to the ledger, the ballot is not finished with. */
async function cancelIfQuiet(deps: SettleDeps, campaignId: string): Promise<void> {
  const found = await findCampaign(deps.db.admin.orm, campaignId)
  const why = await whyNotRipe(deps, found!.campaign)
  if (why === undefined) await cancelBallot(deps, campaignId)
}

import { randomBytes } from 'node:crypto'
import { seedHashOf } from '../../schema/ballot.ts'
import { ballots } from '../../schema/db/tables.ts'
import { ballotMachine } from '../../schema/states.ts'
import type { Tx } from '../command.ts'
import { drawCrypto } from './crypto.ts'

const seedBytes = 32

/** Makes the ballot's seed. From the publication on, anyone sees its hash: it can't be chosen after the entries. */
export async function openBallot(tx: Tx, campaignId: string): Promise<void> {
  const seed = randomBytes(seedBytes).toString('hex')
  await tx
    .insert(ballots)
    .values({ campaignId, seed, seedHash: seedHashOf(drawCrypto, seed), state: ballotMachine.initial })
}

import { type BallotRecord, verifyBallot } from '../../schema/ballot.ts'
import { drawCrypto } from '../ballot/crypto.ts'
import { OpsError } from './errors.ts'

/** Runs a published draw again, with nothing but what is published. */

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')

/** @throws OpsError: usage when it is no record of a draw, refused when the draw does not hold. */
export function verifyRecord(given: unknown): { entrants: number; winners: number } {
  const record = given as Partial<BallotRecord> & { state?: string }
  if (record.state === 'OPEN' || record.state === 'CANCELLED')
    throw new OpsError('refused', `The ballot is ${record.state}: there is no draw to verify.`)
  const isRecord =
    typeof record.seed === 'string' &&
    typeof record.seed_hash === 'string' &&
    typeof record.quota === 'number' &&
    isTexts(record.entrants) &&
    isTexts(record.winners)
  if (!isRecord) throw new OpsError('usage', 'This is no record of a draw: fetch /v1/campaigns/ID/ballot.')
  const { entrants, winners } = record as BallotRecord
  const faults = verifyBallot(drawCrypto, record as BallotRecord)
  if (faults.length > 0) throw new OpsError('refused', `The draw does not hold: ${faults.join('; ')}.`)
  return { entrants: entrants.length, winners: winners.length }
}

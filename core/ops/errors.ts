/** Why a call of the CLI did not succeed, as its exit code says it. */
export type OpsFailure = 'refused' | 'usage' | 'no answer'

export const exitCodes: Record<OpsFailure, number> = { refused: 1, usage: 2, 'no answer': 3 }

export class OpsError extends Error {
  readonly failure: OpsFailure
  constructor(failure: OpsFailure, message: string) {
    super(message)
    this.name = 'OpsError'
    this.failure = failure
  }
}

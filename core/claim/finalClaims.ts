import type { ClaimView } from './status.ts'

/**
 * Final answers by request id (A4 §8): a claim that was delivered or rejected never changes again, so a storm of
 * questions about it costs Postgres one look in each process. Bounded; the oldest go first.
 */
export class FinalClaims {
  readonly #most: number
  readonly #views = new Map<string, { userId: string; view: ClaimView }>()

  constructor(most: number) {
    this.#most = most
  }

  /** The final answer, if it is this user's and was seen here before. */
  of(userId: string, requestId: string): ClaimView | undefined {
    const kept = this.#views.get(requestId)
    return kept?.userId === userId ? kept.view : undefined
  }

  /** Keeps the answer when it is final, and gives it back. */
  keep(userId: string, view: ClaimView): ClaimView {
    if (view.status !== 'DELIVERED' && view.status !== 'REJECTED') return view
    if (this.#views.size >= this.#most) {
      const [oldest] = this.#views.keys()
      this.#views.delete(oldest!)
    }
    this.#views.set(view.request_id, { userId, view })
    return view
  }
}

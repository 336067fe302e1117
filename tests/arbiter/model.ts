/**
 * An independent model of one bucket of the arbiter, written from DESIGN §3 and §4 and the scripts' headers, and
 * sharing no code with them. It is plain and slow: lists that are searched, one claim after the other.
 */

export type Letter = 'N' | 'Y' | 'M' | 'T' | 'V' | 'E' | 'P' | 'S' | 'B' | 'L' | 'O' | 'A'
export type GateState = 'ACTIVE' | 'PAUSED' | 'ENDED' | 'VOIDED'

export interface ModelConfig {
  configVersion: number
  state: GateState
  ruleVersion: number
  startsAtMs: number
  endsAtMs: number
  perUserLimit: number
  drip?: { initial: number; atMs: number; everyMs: number; amount: number }
  pace?: { perSecond: number; burst: number }
}

export interface ModelClaim {
  user: string
  random: string
  key: string
  params: string
  token: string
  /** Accepted, but kept for review. */
  held: boolean
}

export interface ModelAcceptance extends ModelClaim {
  atMs: number
  state: 'A' | 'D' | 'X' | 'R' | 'V'
}

interface Gate {
  config: ModelConfig
  epoch: number
  allocated: number
  /** When it was given: a clock that stepped back is before it. */
  leaseFromMs: number
  leaseUntilMs: number
  final: boolean
  /** Thousandths of a token, and when they were counted. */
  pace: { tokens: number; atMs: number } | undefined
}

/** One entry of the log: the acceptances of one call, by their place in `acceptances`. */
export interface ModelEntry {
  ruleVersion: number
  epoch: number
  acceptances: ModelAcceptance[]
}

export interface ModelVerdict {
  letter: Letter
  /** The acceptance that A or Y speaks of. */
  acceptance?: ModelAcceptance
}

const isOpen = ({ config }: Gate, nowMs: number): boolean =>
  config.state === 'ACTIVE' && nowMs >= config.startsAtMs && nowMs < config.endsAtMs

export class BucketModel {
  gate: Gate | undefined
  acceptances: ModelAcceptance[] = []
  log: ModelEntry[] = []
  moves = new Map<string, number>()

  prime(config: ModelConfig, stock: { epoch: number; amount: number; final: boolean }): string {
    if (this.gate) return 'already'
    if (this.acceptances.length > 0 || this.log.length > 0) return 'conflict'
    this.gate = {
      config,
      epoch: stock.epoch,
      allocated: stock.amount,
      leaseFromMs: 0,
      leaseUntilMs: 0,
      final: stock.final,
      pace: undefined,
    }
    return 'primed'
  }

  /** Everything that was ever accepted and not given back. */
  get taken(): number {
    return this.acceptances.filter((a) => a.state !== 'R').length
  }
  get remaining(): number {
    return this.gate ? this.gate.allocated - this.taken : 0
  }
  get returned(): number {
    return this.acceptances.filter((a) => a.state === 'R').length
  }
  get settled(): number {
    return this.acceptances.filter((a) => a.state === 'D' || a.state === 'X' || a.state === 'R').length
  }

  claims(claims: readonly ModelClaim[], nowMs: number): { verdicts: ModelVerdict[]; retryAfterMs: number } {
    const gate = this.gate
    if (!gate) return { verdicts: claims.map(() => ({ letter: 'N' })), retryAfterMs: 1000 }
    // A clock that stepped back before the lease ends it.
    if (isOpen(gate, nowMs) && nowMs < gate.leaseUntilMs && nowMs < gate.leaseFromMs) gate.leaseUntilMs = 0
    const accepted: ModelAcceptance[] = []
    let tokens = this.#tokensAt(nowMs)
    const verdicts = claims.map((claim): ModelVerdict => {
      const verdict = this.#decide(gate, claim, nowMs, tokens)
      if (verdict.letter !== 'A') return verdict
      const acceptance: ModelAcceptance = { ...claim, atMs: nowMs, state: claim.held ? 'V' : 'A' }
      this.acceptances.push(acceptance)
      accepted.push(acceptance)
      tokens -= 1000
      return { letter: 'A', acceptance }
    })
    if (accepted.length > 0) {
      this.log.push({ ruleVersion: gate.config.ruleVersion, epoch: gate.epoch, acceptances: accepted })
      if (gate.config.pace) gate.pace = { tokens, atMs: Math.max(nowMs, gate.pace?.atMs ?? nowMs) }
    }
    return { verdicts, retryAfterMs: this.#retryAfter(gate, nowMs, tokens) }
  }

  #decide(gate: Gate, claim: ModelClaim, nowMs: number, tokens: number): ModelVerdict {
    const mine = this.acceptances.filter((a) => a.user === claim.user)
    const sameKey = mine.find((a) => a.key === claim.key)
    if (sameKey) {
      return sameKey.params === claim.params ? { letter: 'Y', acceptance: sameKey } : { letter: 'M' }
    }
    if (mine.some((a) => a.token === claim.token)) return { letter: 'T' }
    const { config } = gate
    if (config.state === 'VOIDED') return { letter: 'V' }
    if (config.state === 'ENDED') return { letter: 'E' }
    if (config.state === 'PAUSED') return { letter: 'P' }
    if (nowMs < config.startsAtMs) return { letter: 'S' }
    if (nowMs >= config.endsAtMs) return { letter: 'E' }
    if (nowMs >= gate.leaseUntilMs) return { letter: 'B' }
    if (mine.filter((a) => a.state !== 'R').length >= config.perUserLimit) return { letter: 'L' }
    if (this.remaining <= 0) return { letter: gate.final ? 'O' : 'B' }
    if (this.taken >= this.#releasedAt(nowMs)) return { letter: 'B' }
    if (config.pace && tokens < 1000) return { letter: 'B' }
    return { letter: 'A' }
  }

  /** How many may have been accepted by now, net of returns. */
  #releasedAt(nowMs: number): number {
    const drip = this.gate?.config.drip
    if (!drip) return Number.POSITIVE_INFINITY
    if (nowMs < drip.atMs) return drip.initial
    return drip.initial + (Math.floor((nowMs - drip.atMs) / drip.everyMs) + 1) * drip.amount
  }

  #tokensAt(nowMs: number): number {
    const { config, pace } = this.gate!
    if (!config.pace) return Number.POSITIVE_INFINITY
    const full = config.pace.burst * 1000
    if (!pace) return full
    return Math.min(full, pace.tokens + Math.max(0, nowMs - pace.atMs) * config.pace.perSecond)
  }

  #retryAfter(gate: Gate, nowMs: number, tokens: number): number {
    const { config } = gate
    if (isOpen(gate, nowMs) && nowMs >= gate.leaseUntilMs) return 1000
    if (this.remaining <= 0) return 200
    const drip = config.drip
    if (drip && this.taken >= this.#releasedAt(nowMs)) {
      if (nowMs < drip.atMs) return drip.atMs - nowMs
      const periods = Math.floor((nowMs - drip.atMs) / drip.everyMs) + 1
      return drip.atMs + periods * drip.everyMs - nowMs
    }
    if (config.pace && tokens < 1000) return Math.ceil((1000 - tokens) / config.pace.perSecond)
    return 1000
  }

  configure(config: ModelConfig): string {
    if (!this.gate) return 'not_ready'
    if (config.configVersion < this.gate.config.configVersion) return 'stale'
    if (config.configVersion === this.gate.config.configVersion) return 'same'
    this.gate.config = config
    return 'applied'
  }

  renewLease(leaseMs: number, final: boolean, nowMs: number): boolean {
    if (!this.gate) return false
    if (this.gate.final && !final) this.gate.epoch++
    this.gate.final = final
    this.gate.leaseFromMs = nowMs
    this.gate.leaseUntilMs = nowMs + leaseMs
    return true
  }

  settle(entries: readonly ModelEntry[], outcomes: readonly ('D' | 'X' | 'V')[]): { settled: number } {
    let settled = 0
    let at = 0
    for (const entry of entries) {
      for (const acceptance of entry.acceptances) {
        const outcome = outcomes[at++ % outcomes.length]!
        if (acceptance.state !== 'A' && acceptance.state !== 'V') continue
        if (outcome !== 'V') settled++
        acceptance.state = outcome
      }
      this.log = this.log.filter((other) => other !== entry)
    }
    return { settled }
  }

  compensate(acceptance: ModelAcceptance | undefined): string {
    if (!this.gate) return 'not_ready'
    if (!acceptance) return 'missing'
    if (acceptance.state === 'R') return 'already'
    if (acceptance.state === 'D') return 'delivered'
    acceptance.state = 'R'
    this.gate.epoch++
    return 'returned'
  }

  move(id: string, amount: number): { outcome: string; amount?: number } {
    if (!this.gate) return { outcome: 'not_ready' }
    const done = this.moves.get(id)
    if (done !== undefined) return { outcome: 'already', amount: Math.abs(done) }
    const moved = amount < 0 ? -Math.min(-amount, this.remaining) : amount
    this.moves.set(id, moved)
    this.gate.allocated += moved
    this.gate.epoch++
    return { outcome: 'moved', amount: Math.abs(moved) }
  }

  /** Closes the gate and forgets the records; they are handed back for the rebuild. */
  beginRebuild(): ModelAcceptance[] {
    const kept = this.acceptances
    this.acceptances = []
    this.gate = undefined
    return kept
  }
}

import type { CampaignView } from '../../../schema/view.ts'
import type { Acceptance, ClaimToken } from './api.ts'
import type { Coupon } from './model.ts'

/**
 * What outlives a reload: the device's id, and per campaign and user the claim under way. The key is written
 * before the first request leaves, so whatever happens to the page, a retry repeats the same claim.
 */
export interface ClaimRecord {
  /** Idempotency-Key of this claim. */
  key: string
  /** Pressed, without a final answer. */
  pending: boolean
  /** An answer got lost: the claim may have been accepted. */
  unheard: boolean
  token?: ClaimToken
  acceptance?: Acceptance
  coupon?: Coupon
  owned: number
}

export interface Store {
  deviceId(): string
  /** The stored claim, or a new one with a fresh key that is not stored yet. */
  read(campaignId: string, user: string): ClaimRecord
  write(campaignId: string, user: string, record: ClaimRecord): void
  /** The campaign as last seen here: something to show while the network is slow. */
  lastView(campaignId: string): CampaignView | undefined
  keepView(view: CampaignView): void
  /** All campaigns that were seen here. */
  seenViews(): CampaignView[]
}

const prefix = 'tidegate:'
const viewPrefix = `${prefix}view:`

/** The storage key of a claim, as it appears in `storage` events of other tabs. */
export function claimKey(campaignId: string, user: string): string {
  return `${prefix}claim:${campaignId}:${user}`
}

/**
 * @param storage the browser's localStorage; where it refuses (private mode, full), memory has to do, and the
 * claim is then safe for as long as the page lives.
 * @param uuid makes keys and the device's id.
 */
export function browserStore(storage: Storage | undefined, uuid: () => string): Store {
  const memory = new Map<string, string>()
  const get = (name: string): string | undefined => {
    try {
      return memory.get(name) ?? storage?.getItem(name) ?? undefined
    } catch {
      return memory.get(name)
    }
  }
  const put = (name: string, value: string) => {
    memory.set(name, value)
    try {
      storage?.setItem(name, value)
      if (storage !== undefined) memory.delete(name)
    } catch {
      // Refused: the copy in memory stays, and is read first.
    }
  }
  const parsed = (name: string): unknown => {
    try {
      return JSON.parse(get(name) ?? 'null')
    } catch {
      return null
    }
  }
  return {
    deviceId() {
      const known = get(`${prefix}device`)
      if (known !== undefined) return known
      const fresh = uuid()
      put(`${prefix}device`, fresh)
      return fresh
    },
    read(campaignId, user) {
      const record = parsed(claimKey(campaignId, user)) as ClaimRecord | null
      return typeof record?.key === 'string' ? record : newRecord(uuid(), 0)
    },
    write: (campaignId, user, record) => put(claimKey(campaignId, user), JSON.stringify(record)),
    lastView: (campaignId) => (parsed(viewPrefix + campaignId) as CampaignView | null) ?? undefined,
    keepView: (view) => put(viewPrefix + view.id, JSON.stringify(view)),
    seenViews() {
      const names = storage === undefined ? [...memory.keys()] : Object.keys(storage)
      return names
        .filter((name) => name.startsWith(viewPrefix))
        .map((name) => parsed(name) as CampaignView | null)
        .filter((view) => view !== null)
    },
  }
}

export function newRecord(key: string, owned: number): ClaimRecord {
  return { key, pending: false, unheard: false, owned }
}

/** A random UUID (v4). `crypto.randomUUID` would do, but only on secure origins: not for a phone in a developer's LAN. */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

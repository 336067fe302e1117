import { type Address, Networks } from '../../schema/address.ts'
import { deviceHashOf } from '../mac.ts'

/** Who is refused whatever else is true (CL5). Devices are compared by their hash, which is what tokens carry. */
export interface BlockList {
  /** Whether it names any user or device: most don't, and a look into a set costs a hash of the text. */
  readonly namesCallers: boolean
  readonly users: ReadonlySet<string>
  readonly deviceHashes: ReadonlySet<string>
  readonly networks: Networks
}

/** @throws on a malformed network. */
export function makeBlockList(lists: {
  users?: readonly string[] | undefined
  devices?: readonly string[] | undefined
  networks?: readonly string[] | undefined
}): BlockList {
  const users = new Set(lists.users)
  const deviceHashes = new Set(lists.devices?.map(deviceHashOf))
  return {
    namesCallers: users.size + deviceHashes.size > 0,
    users,
    deviceHashes,
    networks: new Networks(lists.networks ?? []),
  }
}

export function isAddressBlocked({ networks }: BlockList, address: Address | undefined): boolean {
  return address !== undefined && networks.has(address)
}

export function isCallerBlocked(list: BlockList, userId: string, deviceHash: string): boolean {
  return list.namesCallers && (list.users.has(userId) || list.deviceHashes.has(deviceHash))
}

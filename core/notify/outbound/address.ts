import { BlockList, isIP } from 'node:net'

/**
 * Which addresses a delivery may go to: those of the public internet. Everything that IANA's special-purpose
 * registries (RFC 6890 and its updates) reserve is refused, and of IPv6 everything outside of 2000::/3.
 */

const special4: [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
]

/** Within 2000::/3: Teredo, ORCHID and other protocols' own; documentation; 6to4, which carries any IPv4 in it. */
const special6: [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
]

const refused4 = new BlockList()
for (const [net, bits] of special4) refused4.addSubnet(net, bits, 'ipv4')
const refused6 = new BlockList()
for (const [net, bits] of special6) refused6.addSubnet(net, bits, 'ipv6')
const unicast6 = new BlockList()
unicast6.addSubnet('2000::', 3, 'ipv6')
const mapped = new BlockList()
mapped.addSubnet('::ffff:0:0', 96, 'ipv6')

/** False for everything that is no public address, also for what is no address at all. */
export function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !refused4.check(address, 'ipv4')
    case 6:
      // A mapped address reaches IPv4: no delivery needs to be written that way.
      if (address.includes('%') || mapped.check(address, 'ipv6')) return false
      return unicast6.check(address, 'ipv6') && !refused6.check(address, 'ipv6')
    default:
      return false
  }
}

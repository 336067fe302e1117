import assert from 'node:assert/strict'
import { isIPv4, isIPv6 } from 'node:net'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { isIpv4, Networks, parseAddress, prefixOf, tiersOf } from './address.ts'

const tiers = (text: string) => tiersOf(parseAddress(text)!)
const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
const written = (all: readonly number[]) => all.map((group) => group.toString(16)).join(':')

describe('addresses', () => {
  it('are read as the runtime’s own parser reads them, or not at all', () => {
    const piece = fc.constantFrom(
      '::',
      ':',
      '0',
      'ffff',
      '1',
      'A',
      '12345',
      '.',
      '127.0.0.1',
      '256',
      '%eth0',
      '/',
      ' ',
    )
    const text = fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.array(piece, { maxLength: 12 }).map((all) => all.join('')),
    )
    fc.assert(
      fc.property(text, (address) => {
        const known = isIPv4(address) || (isIPv6(address) && !address.includes('%'))
        assert.equal(parseAddress(address) !== undefined, known, address)
      }),
      { numRuns: 2_000 },
    )
  })

  it('have one reading however they are written', () => {
    for (const same of ['2001:DB8::1', '2001:db8:0:0::1', '2001:0db8:0000:0000:0000:0000:0000:0001'])
      assert.deepEqual(parseAddress(same), [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])
    assert.deepEqual(parseAddress('::ffff:192.0.2.1'), parseAddress('192.0.2.1'))
    assert.deepEqual(parseAddress('::ffff:c000:201'), parseAddress('192.0.2.1'))
  })

  it('of IPv6 share their limits within a /64, and wider ones within a /56 and /48 (case-K1)', () => {
    fc.assert(
      fc.property(
        groups,
        fc.integer({ min: 4, max: 7 }),
        fc.integer({ min: 0, max: 0xffff }),
        (all, at, value) => {
          const address = parseAddress(written(all))!
          fc.pre(!isIpv4(address))
          const other = parseAddress(written(all.with(at, value)))!
          fc.pre(!isIpv4(other))
          assert.deepEqual(tiersOf(address), tiersOf(other))
        },
      ),
    )
    assert.notEqual(tiers('2001:db8:0:1::1').address, tiers('2001:db8:0:2::1').address)
    assert.equal(tiers('2001:db8:0:1::1').network, tiers('2001:db8:0:ff::1').network)
    assert.notEqual(tiers('2001:db8:0:1::1').network, tiers('2001:db8:0:100::1').network)
    assert.equal(tiers('2001:db8:0:1::1').site, tiers('2001:db8:0:ffff::1').site)
    assert.notEqual(tiers('2001:db8:0:1::1').site, tiers('2001:db8:1:1::1').site)
  })

  it('of IPv4 are limited one by one, also where they are written as IPv6', () => {
    assert.notEqual(tiers('192.0.2.1').address, tiers('192.0.2.2').address)
    assert.deepEqual(tiers('::ffff:192.0.2.1'), tiers('192.0.2.1'))
    assert.equal(tiers('192.0.2.1').network, tiers('192.0.2.200').network)
    assert.notEqual(tiers('192.0.2.1').network, tiers('192.0.3.1').network)
    assert.equal(tiers('192.0.2.1').site, undefined)
  })

  it('share a prefix exactly when their first bits are equal', () => {
    const bits = (all: readonly number[]) => all.map((group) => group.toString(2).padStart(16, '0')).join('')
    fc.assert(
      fc.property(groups, groups, fc.integer({ min: 0, max: 128 }), (a, b, length) => {
        const equal = bits(a).slice(0, length) === bits(b).slice(0, length)
        assert.equal(prefixOf(a, length) === prefixOf(b, length), equal)
      }),
    )
  })
})

describe('lists of networks', () => {
  const list = new Networks(['192.0.2.0/24', '198.51.100.7', '2001:db8::/33', '2001:db8:ffff::1'])
  const has = (text: string) => list.has(parseAddress(text)!)

  it('hold what is in one of their networks, and nothing else', () => {
    for (const text of [
      '192.0.2.255',
      '::ffff:192.0.2.9',
      '198.51.100.7',
      '2001:db8:7fff::5',
      '2001:db8:ffff::1',
    ])
      assert.ok(has(text), text)
    for (const text of ['192.0.3.0', '198.51.100.8', '2001:db8:8000::', '2001:db8:ffff::2', '::1'])
      assert.ok(!has(text), text)
  })

  it('refuse what is no network', () => {
    for (const text of [
      '',
      'x',
      '192.0.2.0/33',
      '2001:db8::/129',
      '192.0.2.0/',
      '192.0.2.0/8/8',
      '192.0.2/24',
    ])
      assert.throws(() => new Networks([text]), /neither an address nor a network/, text)
  })
})

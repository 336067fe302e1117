/** Integer minor units of an ISO 4217 currency. `minor` is a string on the wire, so that no digit is ever lost. */
export interface Money {
  readonly currency: string
  readonly minor: bigint
}
export interface WireMoney {
  currency: string
  minor: string
}

export function toWire(money: Money): WireMoney {
  return { currency: money.currency, minor: money.minor.toString() }
}

/** @throws on anything but an ISO code and an integer. */
export function fromWire(wire: WireMoney): Money {
  if (!/^[A-Z]{3}$/.test(wire.currency) || !/^-?\d{1,18}$/.test(wire.minor))
    throw new Error('malformed money')
  return { currency: wire.currency, minor: BigInt(wire.minor) }
}

/**
 * The server's clock as seen from here: an offset to the device's clock, and how wrong that may be.
 * A request that left at `sentAt` and was answered at `receivedAt` (device, ms) shows the server's time to half
 * its round trip. Cached answers carry an old `server_time`, but their `Date` (plus `Age`) is at least as new.
 */
export interface Reading {
  sentAt: number
  receivedAt: number
  /** Server's clock in ms, from the body. */
  serverTime?: number
  /** Server's clock in whole seconds as ms, from the headers `Date` and `Age`. */
  date?: number
}

interface Sample {
  offset: number
  error: number
  at: number
}

const second = 1_000
/** From here on the device's clock is so wrong that the reader should see the server's. */
const noticeableMs = 2_000
/** How fast an old sample loses its worth against a new, less exact one: clocks drift, devices sleep. */
const decayPerMs = 1 / 5_000

export interface ServerClock {
  /** Server's time in ms, from the best sample so far; the device's time before the first one. */
  now(): number
  /** Device time (ms) at which the server's clock will show `instant`. */
  deviceTimeOf(instant: number): number
  learn(reading: Reading): void
  /** How far the device's clock is ahead (ms), when that is more than 2 s beyond doubt; else 0. */
  deviceAhead(): number
}

/** @param device the device's clock in ms, as `Date.now`. */
export function serverClock(device: () => number): ServerClock {
  let best: Sample | undefined
  const offset = () => best?.offset ?? 0
  return {
    now: () => device() + offset(),
    deviceTimeOf: (instant) => instant - offset(),
    learn(reading) {
      const sample = sampleOf(reading)
      if (sample === undefined) return
      const worth = best === undefined ? 0 : best.error + Math.max(0, sample.at - best.at) * decayPerMs
      const contradicts =
        best !== undefined && Math.abs(sample.offset - best.offset) > sample.error + best.error + second
      if (best === undefined || contradicts || sample.error <= worth) best = sample
    },
    deviceAhead() {
      if (best === undefined || Math.abs(best.offset) - best.error <= noticeableMs) return 0
      return -best.offset
    },
  }
}

function sampleOf({ sentAt, receivedAt, serverTime, date }: Reading): Sample | undefined {
  const halfTrip = Math.max(0, receivedAt - sentAt) / 2
  const middle = receivedAt - halfTrip
  const fresh = serverTime !== undefined && (date === undefined || serverTime > date - second)
  if (fresh) return { offset: serverTime - middle, error: halfTrip, at: receivedAt }
  if (date === undefined) return undefined
  return { offset: date + second / 2 - middle, error: halfTrip + second / 2, at: receivedAt }
}

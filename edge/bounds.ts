/** Bounds of one isolate's memory and patience; those of the product are in schema/limits.ts. Units last. */
export const bounds = {
  /** While the core is away, a campaign last seen so long ago is still shown and still gives tokens. */
  campaignStaleMs: 10 * 60_000,
  campaignsKeptMax: 1_000,

  jwksTtlMs: 10 * 60_000,
  /** While the issuer is away, its last known keys go on verifying for so long. */
  jwksStaleMs: 24 * 3_600_000,
  /** A login under an unknown key id may cause one look at the issuer in this time. */
  jwksRefreshEveryMs: 30_000,
  jwksTimeoutMs: 3_000,

  /** A verified login is believed for so long without another signature check, never past its own expiry. */
  loginKeptMs: 5 * 60_000,
  /** All kept logins together: text is what their memory goes to. */
  loginsKeptCharsMax: 4_000_000,

  /** A claim token outlives its campaign by this: a lost answer from the last second can still be repeated. */
  tokenReplayMs: 5 * 60_000,
  logEveryMs: 1_000,
} as const

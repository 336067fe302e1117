/** Bounds of one isolate's memory and patience; those of the product are in schema/limits.ts. Units last. */
export const bounds = {
  /** While the core is away, a campaign last seen so long ago is still shown and still gives tokens. */
  campaignStaleMs: 10 * 60_000,
  campaignsKeptMax: 1_000,
  /** A campaign asked for so often within its time in memory is hot: it is fetched ahead, and nobody waits. */
  hotCampaignGets: 20,

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
  /** The claim woken to lead the next call has so long to do it, before its request counts as dead. */
  handOnMs: 50,
  /** Past this a call no longer keeps others from going beside it. */
  callIsSlowMs: 50,
  /** A status question that the core did not answer waits so long for the arbiter's record. */
  recordedStatusMs: 1_000,
  /** With so many users who have streams open, those whose streams have ended without a word are looked for. */
  streamUsersSweep: 1_000,
  logEveryMs: 1_000,
  metricsEveryMs: 10_000,

  /** Keys that one limit of one route remembers; forgetting one gives it a full bucket. */
  limitKeysMax: 100_000,
  /** Of the limits' and the risk rules' Redis; after it, no token is issued. */
  guardStoreTimeoutMs: 1_000,
  turnstileTimeoutMs: 3_000,
  /** What a location's counter has said of a key is believed for so long. */
  locationOverMs: 1_000,
  locationKeysMax: 10_000,
  /** One of so many requests is counted for its location; wrangler.toml has the limits. */
  requestsPerLocationCount: 1_000,

  /** So many failures in a row open a circuit, for so long; then one call at a time looks. */
  circuitFailuresMax: 5,
  circuitOpenMs: 1_000,

  /** A look into the location's cache is given up after this. */
  cacheTimeoutMs: 200,

  /** How long SOLD_OUT is answered from memory after the arbiter said it: a refill reopens everywhere within it. */
  soldOutHoldsMs: 800,
  /** After this, one claim looks whether it still holds; the others are answered meanwhile. */
  soldOutFreshMs: 350,
  soldOutMarkersMax: 1_000,
  /** Users with acceptances, of a sold-out bucket: one page holds Redis for 2 ms. */
  holdersPageUsers: 4_000,
  holdersPagesMax: 100,
  holdersLoadEveryMs: 1_000,
  holdersKeptMs: 60_000,
} as const

/**
 * The push services of the browsers there are. A subscription's address comes from whoever is logged in, so only
 * these are posted to: an invented one would make us call anybody.
 */
const hosts = [
  // Chrome, Edge on Android, Opera, Samsung
  'fcm.googleapis.com',
  // Firefox
  'push.services.mozilla.com',
  // Safari
  'push.apple.com',
  // Edge
  'notify.windows.com',
]

export function isPushService(endpoint: string): boolean {
  const { hostname, port } = new URL(endpoint)
  return port === '' && hosts.some((host) => hostname === host || hostname.endsWith(`.${host}`))
}

import { brand } from '../brand.ts'

/**
 * The reader's login: a token that the shop issued. It arrives in the address's fragment (`#login=…`), which no
 * server sees, or from the brand file's hook; it is kept for the tab's session only.
 */
const sessionName = 'tidegate:login'

/** Takes the login out of the address, if it has one, and cleans the address. */
export function adoptLogin(): void {
  const parts = location.hash.slice(1).split('&')
  const found = parts.find((part) => part.startsWith('login='))
  if (found === undefined) return
  const rest = parts.filter((part) => part !== found).join('&')
  history.replaceState(history.state, '', location.pathname + location.search + (rest ? `#${rest}` : ''))
  remember(decodeURIComponent(found.slice('login='.length)))
}

/**
 * The present login, or undefined for a reader who isn't signed in.
 * @param stale a login that the service refused: asks the hook for another one.
 */
export async function currentLogin(stale?: string): Promise<string | undefined> {
  const kept = recall()
  if (kept !== undefined && kept !== stale) return kept
  const fresh = await brand.login?.().catch(() => undefined)
  if (fresh !== undefined && fresh !== stale) remember(fresh)
  return fresh === stale ? undefined : fresh
}

/**
 * Whose claim is stored under which name. Read without verification: it decides nothing but the place in this
 * browser's storage. A login that is no JWT is told apart by its hash.
 */
export function userOf(login: string): string {
  try {
    const payload = login.split('.')[1]!.replaceAll('-', '+').replaceAll('_', '/')
    const { sub } = JSON.parse(atob(payload))
    if (typeof sub === 'string' && sub !== '') return sub
  } catch {
    // not a JWT
  }
  let hash = 0
  for (const char of login) hash = (Math.imul(hash, 31) + char.codePointAt(0)!) | 0
  return `opaque-${(hash >>> 0).toString(36)}`
}

let inMemory: string | undefined

function remember(login: string): void {
  inMemory = login
  try {
    sessionStorage.setItem(sessionName, login)
  } catch {
    // Storage may be switched off: the login then lives as long as the page.
  }
}

function recall(): string | undefined {
  try {
    return inMemory ?? sessionStorage.getItem(sessionName) ?? undefined
  } catch {
    return inMemory
  }
}

import { randomBytes } from 'node:crypto'
import { chmodSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { exportJWK, generateKeyPair, type JWK } from 'jose'

/** Every secret of a local stack. Key rings have the form `kid:secret[,kid:secret…]`; the first key signs. */
export interface StackKeys {
  /** ES256 key pair of the local login issuer, with its `kid`. */
  login: { privateKey: JWK; publicKey: JWK }
  claimTokenKeys: string
  receiptKeys: string
  campaignIdKeys: string
  edgeCoreKeys: string
  /** Bearer token of the Redis gateway. */
  gatewayToken: string
}

const secret = () => randomBytes(32).toString('base64url')
const ring = () => `k1:${secret()}`

/** Makes a complete set of new keys. */
export async function makeKeys(): Promise<StackKeys> {
  const pair = await generateKeyPair('ES256', { extractable: true })
  const kid = randomBytes(6).toString('hex')
  const about = { kid, alg: 'ES256', use: 'sig' }
  return {
    login: {
      privateKey: { ...(await exportJWK(pair.privateKey)), ...about },
      publicKey: { ...(await exportJWK(pair.publicKey)), ...about },
    },
    claimTokenKeys: ring(),
    receiptKeys: ring(),
    campaignIdKeys: ring(),
    edgeCoreKeys: ring(),
    gatewayToken: secret(),
  }
}

function read(file: string): StackKeys | undefined {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const keys = JSON.parse(text) as StackKeys
    const rings = [keys.claimTokenKeys, keys.receiptKeys, keys.campaignIdKeys, keys.edgeCoreKeys]
    if (keys.login.privateKey.d && keys.gatewayToken && rings.every((entry) => entry.includes(':')))
      return keys
  } catch {
    // Told below: unreadable and incomplete have the same cure.
  }
  throw new Error(
    `${file} is not a complete key file. Restore it, or remove it to make new keys (logins, claim tokens and campaign ids made so far become invalid).`,
  )
}

/**
 * The keys of a stack: those kept in `file`, or new ones, which are then kept there, readable by its owner only.
 * @throws when the file exists and is damaged: new keys would silently make every campaign id unknown.
 */
export async function keepKeys(file: string): Promise<StackKeys> {
  const kept = read(file)
  if (kept) {
    chmodSync(file, 0o600)
    return kept
  }
  const keys = await makeKeys()
  mkdirSync(dirname(file), { recursive: true })
  const temporary = `${file}.new-${process.pid}`
  writeFileSync(temporary, `${JSON.stringify(keys, null, 2)}\n`, { mode: 0o600 })
  try {
    // A link never overwrites: when two starts come together, the first one's keys hold for both.
    linkSync(temporary, file)
    return keys
  } catch (error) {
    const first = read(file)
    if (!first) throw error
    return first
  } finally {
    rmSync(temporary, { force: true })
  }
}

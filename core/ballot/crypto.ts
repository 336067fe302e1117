import { createHash, createHmac } from 'node:crypto'
import type { DrawCrypto } from '../../schema/ballot.ts'

export const drawCrypto: DrawCrypto = {
  sha256: (text) => createHash('sha256').update(text).digest('hex'),
  hmac: (key, text) => createHmac('sha256', key).update(text).digest('hex'),
}

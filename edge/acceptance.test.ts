import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseKeyring } from '../schema/sealed.ts'
import { openTicket, unsealReceipt } from '../schema/tokens.ts'
import { acceptanceBody } from './acceptance.ts'

const ring = parseKeyring(
  'TEST',
  `k1:${'s'.repeat(32)}`,
  (key) => (text) => createHmac('sha256', key).update(text).digest('base64url'),
)

test('an acceptance carries a ticket and a receipt that open for its own user, whatever characters the user id has', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }), (userId) => {
      const requestId = '01a22872-dcde-700e-b98f-f65ed33cfa7c'
      const acceptance = { campaignId: 'c1', bucket: 37, requestId, userId }
      const text = acceptanceBody(acceptance, ring)
      const body = JSON.parse(text)
      for (const address of [body.status_url, body.events_url]) {
        const ticket = new URL(address, 'http://edge.example').searchParams.get('ticket')!
        assert.deepEqual(openTicket(ticket, requestId, Date.parse(body.accepted_at), ring), acceptance)
      }
      assert.deepEqual(unsealReceipt(body.receipt, ring), acceptance)
      assert.equal(acceptanceBody(acceptance, ring), text)
    }),
  )
})

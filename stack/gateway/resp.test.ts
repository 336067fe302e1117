import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { answerJson, itemsOf, replyValue } from './reply.ts'
import { type Argument, CommandWriter, FrameReader, RespProtocolError } from './resp.ts'

const argument = fc.oneof(
  fc.string({ maxLength: 100 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.constantFrom(
    '',
    'x'.repeat(9),
    'x'.repeat(10),
    'x'.repeat(99),
    'x'.repeat(100),
    'é'.repeat(70_000),
    '\ud800',
  ),
)

/** An independent reading of a RESP array of bulk strings. */
function readCommands(bytes: Buffer): Buffer[][] {
  const commands: Buffer[][] = []
  let at = 0
  const line = () => {
    const end = bytes.indexOf('\r\n', at)
    const text = bytes.toString('latin1', at, end)
    at = end + 2
    return text
  }
  while (at < bytes.length) {
    const count = Number(/^\*(\d+)$/.exec(line())?.[1])
    const command: Buffer[] = []
    for (let i = 0; i < count; i++) {
      const length = Number(/^\$(\d+)$/.exec(line())?.[1])
      command.push(bytes.subarray(at, at + length))
      assert.equal(bytes.toString('latin1', at + length, at + length + 2), '\r\n')
      at += length + 2
    }
    commands.push(command)
  }
  return commands
}

test('commands of any text and bytes are encoded as RESP, however many share one buffer', () => {
  const commands = fc.array(fc.array(argument, { minLength: 1, maxLength: 12 }), {
    minLength: 1,
    maxLength: 8,
  })
  fc.assert(
    fc.property(commands, (wanted: Argument[][]) => {
      const writer = new CommandWriter()
      for (const command of wanted) writer.write(command)
      const got = readCommands(writer.take())
      assert.deepEqual(
        got,
        wanted.map((command) => command.map((arg) => Buffer.from(arg as string))),
      )
      assert.ok(writer.isEmpty)
    }),
  )
})

type Reply = null | number | { ok: string } | { error: string } | Buffer | Reply[]

const reply = fc.letrec<{ reply: Reply }>((tie) => ({
  reply: fc.oneof(
    { depthSize: 'small', maxDepth: 4 },
    fc.constant(null),
    fc.maxSafeInteger(),
    fc.stringMatching(/^[A-Za-z ]*$/).map((ok) => ({ ok })),
    fc.stringMatching(/^ERR [a-z ]*$/).map((error) => ({ error })),
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.array(tie('reply'), { maxLength: 5 }),
  ),
})).reply

function encode(value: Reply): Buffer {
  if (value === null) return Buffer.from('$-1\r\n')
  if (typeof value === 'number') return Buffer.from(`:${value}\r\n`)
  if (Buffer.isBuffer(value))
    return Buffer.concat([Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')])
  if (Array.isArray(value)) return Buffer.concat([Buffer.from(`*${value.length}\r\n`), ...value.map(encode)])
  return Buffer.from('ok' in value ? `+${value.ok}\r\n` : `-${value.error}\r\n`)
}

function plain(value: Reply): unknown {
  if (value === null || typeof value === 'number') return value
  if (Buffer.isBuffer(value)) return value.toString('base64')
  if (Array.isArray(value)) return value.map(plain)
  return Buffer.from('ok' in value ? value.ok : value.error).toString('base64')
}

test('replies are cut at the same places wherever the network breaks the stream', () => {
  fc.assert(
    fc.property(fc.array(reply, { minLength: 1, maxLength: 6 }), fc.array(fc.nat(40)), (replies, cuts) => {
      const stream = Buffer.concat(replies.map(encode))
      const reader = new FrameReader()
      const frames: Buffer[] = []
      let at = 0
      for (const cut of cuts) {
        frames.push(...reader.push(Buffer.from(stream.subarray(at, at + cut))))
        at = Math.min(stream.length, at + cut)
      }
      frames.push(...reader.push(Buffer.from(stream.subarray(at))))
      assert.deepEqual(
        frames.map((frame) => frame.toString('latin1')),
        replies.map((r) => encode(r).toString('latin1')),
      )
    }),
  )
})

test('every reply becomes JSON with its bytes kept in base64, and only a whole OK stays as it is', () => {
  fc.assert(
    fc.property(reply, (value) => {
      const got = JSON.parse(answerJson(encode(value), true))
      if (value !== null && typeof value === 'object' && 'error' in value)
        assert.deepEqual(got, { error: value.error })
      else if (value !== null && typeof value === 'object' && 'ok' in value && value.ok === 'OK')
        assert.deepEqual(got, { result: 'OK' })
      else assert.deepEqual(got, { result: plain(value) })
    }),
  )
  assert.equal(answerJson(Buffer.from('*1\r\n+OK\r\n'), true), '{"result":["T0s="]}')
})

test('integers keep all their digits and null arrays are null', () => {
  assert.equal(answerJson(Buffer.from(':9223372036854775807\r\n'), true), '{"result":9223372036854775807}')
  assert.equal(answerJson(Buffer.from('*-1\r\n'), false), '{"result":null}')
})

test('the items of an array reply are frames of their own', () => {
  const items = itemsOf(encode([[Buffer.from('a'), 1], { error: 'ERR x' }, null])) as Buffer[]
  assert.deepEqual(items.map(String), ['*2\r\n$1\r\na\r\n:1\r\n', '-ERR x\r\n', '$-1\r\n'])
  assert.equal(itemsOf(Buffer.from('-EXECABORT\r\n')), undefined)
})

/** µs of this process's CPU that one reply of so many values takes, which comes in pieces of 1 KiB. */
function cpuOfReading(values: number): number {
  const items = Array.from({ length: values }, (_, i) => `$${`value-${i}`.length}\r\nvalue-${i}\r\n`)
  const stream = Buffer.from(`*${values}\r\n${items.join('')}`)
  const reader = new FrameReader()
  const before = process.cpuUsage()
  let frames: Buffer[] = []
  for (let at = 0; at < stream.length; at += 1024) frames = reader.push(stream.subarray(at, at + 1024))
  const { user, system } = process.cpuUsage(before)
  assert.equal((replyValue(frames[0] as Buffer) as string[]).at(-1), `value-${values - 1}`)
  return user + system
}

test('a reply of many megabytes in small pieces is read in a time that grows with its size only', () => {
  // Eight times as much takes about 8 times as long, or 64 times if each piece were read from the beginning again.
  let [little, much] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let round = 0; round < 5 && !(much < 24 * little); round++) {
    little = Math.min(little, cpuOfReading(25_000))
    much = Math.min(much, cpuOfReading(200_000))
  }
  assert.ok(much < 24 * little, `${much} µs for eight times what took ${little} µs`)
})

test('bytes that are not RESP2 end the conversation', () => {
  assert.throws(() => new FrameReader().push(Buffer.from('HTTP/1.1 400 Bad Request\r\n')), RespProtocolError)
})

import assert from 'node:assert/strict'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type FaultProxy, startFaultProxy } from './faultProxy.ts'
import { until } from './process.ts'

/** A server that notes what it hears and says it back. */
let server: Server
let heard = ''
let proxy: FaultProxy
before(async () => {
  server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      heard += bytes.toString()
      socket.write(`re:${bytes}`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})
after(() => new Promise((resolve) => server.close(resolve)))
beforeEach(async () => {
  heard = ''
  proxy = await startFaultProxy((server.address() as { port: number }).port)
})
afterEach(() => proxy.close())

interface Client {
  socket: Socket
  got(): string
  ended(): string | undefined
}

function dial(): Client {
  const socket = connect(proxy.port, '127.0.0.1')
  let text = ''
  let end: string | undefined
  socket.on('data', (bytes) => {
    text += bytes.toString()
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    end = error.code
  })
  socket.on('close', () => {
    end ??= 'closed'
  })
  return { socket, got: () => text, ended: () => end }
}

const within = 15_000
/** Long enough for anything that could pass to have passed. */
const quietMs = 150

async function talking(): Promise<Client> {
  const client = dial()
  client.socket.write('a')
  await until(() => client.got() === 're:a', 'no answer', within)
  return client
}

describe('the fault proxy', () => {
  it('freezes both directions without telling anyone, and lets all arrive late', async () => {
    const client = await talking()
    proxy.freeze()
    client.socket.write('b')
    await pause(quietMs)
    assert.deepEqual([heard, client.got(), client.ended()], ['a', 're:a', undefined])
    proxy.release()
    await until(() => client.got() === 're:are:b', 'nothing arrived late', within)
  })

  it('half open: requests arrive and answers do not', async () => {
    const client = await talking()
    proxy.halfOpen()
    client.socket.write('b')
    await until(() => heard === 'ab', 'the request did not arrive', within)
    await pause(quietMs)
    assert.equal(client.got(), 're:a')
    proxy.release()
    await until(() => client.got() === 're:are:b', 'the answer was lost', within)
  })

  it('deaf: answers pass and requests do not, also on new connections', async () => {
    const client = await talking()
    proxy.deafen()
    client.socket.write('b')
    const fresh = dial()
    fresh.socket.write('c')
    await pause(quietMs)
    assert.equal(heard, 'a')
    proxy.release()
    await until(() => client.got() === 're:are:b' && fresh.got() === 're:c', 'they are lost', within)
  })

  it('refuses: resets what stands and what comes, until it is released', async () => {
    const client = await talking()
    proxy.refuse()
    await until(() => client.ended() === 'ECONNRESET', 'it was not reset', within)
    const fresh = dial()
    await until(() => fresh.ended() !== undefined, 'a new one stands', within)
    proxy.release()
    await talking()
  })

  it('cuts once, delays answers, and holds back the one that it waits for', async () => {
    const client = await talking()
    proxy.cut()
    await until(() => client.ended() !== undefined, 'it was not cut', within)
    proxy.delay(quietMs)
    const began = performance.now()
    await talking()
    assert.ok(performance.now() - began >= quietMs - 5)
    proxy.delay(0)
    const victim = await talking()
    let answered = ''
    const held = proxy.holdAnswer(/now/, () => {
      answered = heard
    })
    victim.socket.write('now')
    await held
    assert.match(answered, /now$/)
    assert.equal(victim.got(), 're:a')
    await until(() => victim.ended() !== undefined, 'it was not cut', within)
  })
})

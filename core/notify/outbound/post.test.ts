import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { isPublicAddress } from './address.ts'
import { makePoster, type PosterOptions, PostFailed } from './post.ts'
import { targetFault } from './target.ts'

let server: Server
let port: number
let paths: string[] = []
before(async () => {
  server = createServer((request, response) => {
    paths.push(request.url!)
    if (request.url === '/redirect') response.writeHead(307, { Location: `http://127.0.0.1:${port}/target` })
    if (request.url === '/busy') response.writeHead(503, { 'Retry-After': '120' })
    if (request.url === '/hang') return
    if (request.url === '/endless') {
      response.write('x'.repeat(100_000))
      return
    }
    response.end('thanks')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})
after(() => {
  server.closeAllConnections()
  server.close()
})

const posterOf = (options: Partial<PosterOptions> = {}) =>
  makePoster({ insecure: true, clock: Date.now, timeoutMs: 15_000, ...options })

async function failureOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => assert.fail('it was delivered'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof PostFailed, String(error))
  return error.message
}

describe('addresses', () => {
  it('that are private, local, reserved or carry such within them are refused', () => {
    const refused = [
      ...[
        '0.0.0.0',
        '10.1.2.3',
        '100.64.0.1',
        '127.0.0.1',
        '127.255.255.254',
        '169.254.169.254',
        '172.16.0.1',
      ],
      ...[
        '172.31.255.255',
        '192.0.0.8',
        '192.168.1.1',
        '198.18.0.1',
        '203.0.113.9',
        '224.0.0.1',
        '240.0.0.1',
      ],
      ...['255.255.255.255', '::', '::1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '::127.0.0.1', 'fc00::1'],
      ...[
        'fd12::1',
        'fe80::1',
        'fe80::1%eth0',
        'fec0::1',
        'ff02::1',
        '64:ff9b::7f00:1',
        '2001::1',
        '2001:db8::1',
      ],
      ...['2002:7f00:1::', '3fff::1', '100::1', '', 'example.com', '1.2.3', '127.1'],
    ]
    for (const address of refused) assert.equal(isPublicAddress(address), false, address)
    for (const address of [
      '1.1.1.1',
      '8.8.8.8',
      '172.32.0.1',
      '100.128.0.1',
      '2606:4700::1111',
      '2a00:1450::1',
    ])
      assert.equal(isPublicAddress(address), true, address)
  })
})

describe('a target', () => {
  it('must be https at a public place, however its address is spelt', () => {
    const wrong = [
      ...['', 'shop', 'ftp://shop.example/', 'http://shop.example/', 'https://user:pw@shop.example/'],
      ...['https://shop.example/#x', 'https://127.0.0.1/', 'https://2130706433/', 'https://0x7f.1/'],
      ...['https://0177.0.0.1/', 'https://[::1]/', 'https://[::ffff:10.0.0.1]/', 'https://[fe80::1]/'],
      ...['https://localhost/', 'https://LOCALHOST./', 'https://a.localhost/', 'https://db.internal/'],
      `https://shop.example/${'x'.repeat(3_000)}`,
    ]
    for (const url of wrong) assert.notEqual(targetFault(url, false), undefined, url)
    for (const url of ['https://shop.example/hooks?a=b', 'https://shop.example:8443/', 'https://8.8.8.8/'])
      assert.equal(targetFault(url, false), undefined, url)
    assert.equal(targetFault('http://127.0.0.1:1/', true), undefined)
  })
})

describe('a post', () => {
  it('is refused when any address of the name is not public, and nothing is connected to', async () => {
    paths = []
    const answers = [
      [{ address: '127.0.0.1', family: 4 }],
      [
        { address: '8.8.8.8', family: 4 },
        { address: '10.0.0.1', family: 4 },
      ],
      [{ address: '::ffff:127.0.0.1', family: 6 }],
    ]
    for (const answer of answers) {
      const poster = posterOf({ insecure: false, resolve: async () => answer })
      const url = `https://shop.example:${port}/`
      assert.match(await failureOf(poster.post(url, {}, '{}')), /not public/)
    }
    // By the system's own resolver.
    const real = posterOf({ insecure: false })
    assert.match(
      await failureOf(real.post(`https://ip6-localhost:${port}/`, {}, '{}')),
      /not public|not known|looked up/,
    )
    assert.deepEqual(paths, [])
  })

  it('goes to the address that was checked, by one look-up: a name that changes its answer changes nothing', async () => {
    let looked = 0
    const poster = posterOf({
      resolve: async () => {
        looked += 1
        return [{ address: looked === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }]
      },
    })
    const { status } = await poster.post(`http://rebind.example:${port}/ok`, {}, '{}')
    assert.deepEqual([status, looked], [200, 1])
    poster.close()
  })

  it('never follows a redirect', async () => {
    paths = []
    const poster = posterOf()
    assert.equal((await poster.post(`http://127.0.0.1:${port}/redirect`, {}, '{}')).status, 307)
    assert.deepEqual(paths, ['/redirect'])
    poster.close()
  })

  it('says when the receiver wants it again, and gives up on one that never answers', async () => {
    const [poster, hasty] = [posterOf(), posterOf({ timeoutMs: 300 })]
    const busy = await poster.post(`http://127.0.0.1:${port}/busy`, {}, '{}')
    assert.deepEqual(busy, { status: 503, retryAfterMs: 120_000 })
    assert.match(await failureOf(hasty.post(`http://127.0.0.1:${port}/hang`, {}, '{}')), /No answer within/)
    for (const one of [poster, hasty]) one.close()
  })

  it('reads no long answers', async () => {
    const poster = posterOf()
    assert.equal((await poster.post(`http://127.0.0.1:${port}/endless`, {}, '{}')).status, 200)
    poster.close()
  })

  it('tells its owner what was wrong, and nothing of our network', async () => {
    const free = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => free.once('listening', resolve))
    const { port: closed } = free.address() as AddressInfo
    await new Promise((resolve) => free.close(resolve))
    const refused = await failureOf(posterOf().post(`http://127.0.0.1:${closed}/`, {}, '{}'))
    assert.equal(refused, 'The connection was refused.')
    const tls = await failureOf(posterOf().post(`https://127.0.0.1:${port}/`, {}, '{}'))
    assert.match(tls, /TLS/)
  })
})

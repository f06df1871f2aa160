import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { deflateSync, gunzipSync, gzipSync, inflateSync } from 'node:zlib'

import { ClientMemory, ConnectionMemory } from '../../transport/client-memory.ts'
import { RequestMemory } from '../../transport/request-memory.ts'
import { BodyInflater, deflateBody, deflateParts, requestEncoding, responseEncoding } from './content-encoding.ts'

const newMemory = (server = new ClientMemory()): RequestMemory => new RequestMemory(new ConnectionMemory(server))

const inflate = (
  inflater: BodyInflater,
  body: Buffer,
  memory = newMemory(),
): Promise<{ message: string | null; bytes: Buffer }> =>
  new Promise((resolve) => {
    inflater.inflate(body, memory, (error, bytes) => resolve({ message: error?.message ?? null, bytes }))
  })

test('Accept-Encoding: the highest weight wins, of equal ones the first listed', () => {
  for (const [header, expected] of [
    [null, 'identity'],
    ['', 'identity'],
    ['br', 'identity'],
    ['gzip', 'gzip'],
    ['deflate', 'deflate'],
    ['gzip, deflate', 'gzip'],
    ['deflate,gzip', 'deflate'],
    ['gzip;q=0.5, deflate;q=0.8', 'deflate'],
    ['identity;q=0.5, gzip;q=0.5', 'identity'],
    ['identity;q=0.5, gzip;q=0.6', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['identity;q=0', 'identity'],
    ['GZIP', 'identity'],
    ['gzip;q=abc', 'identity'],
    ['gzip;q=', 'identity'],
    ['*', 'identity'],
    [',,;q=1,', 'identity'],
  ] as const) {
    assert.equal(responseEncoding(header), expected, String(header))
  }
})

test('Content-Encoding is compared to the letter', () => {
  assert.equal(requestEncoding(null), 'identity')
  assert.equal(requestEncoding('identity'), 'identity')
  assert.equal(requestEncoding('gzip'), 'gzip')
  assert.equal(requestEncoding('deflate'), 'deflate')
  for (const header of ['br', 'GZIP', 'x-gzip', 'zstd', 'gzip, gzip']) {
    assert.equal(requestEncoding(header), null, header)
  }
})

test('gzip and zlib are both inflated whatever the label, small ones and large ones', async () => {
  const inflater = new BodyInflater(1_000_000)
  for (const size of [10, 100_000]) {
    // Bytes that do not compress, so that the large one takes the thread pool.
    const plain = Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * i * 7 + (i >> 3)) & 255))
    for (const body of [gzipSync(plain), deflateSync(plain)]) {
      const { message, bytes } = await inflate(inflater, body)
      assert.equal(message, null)
      assert.ok(bytes.equals(plain))
    }
  }
})

test('a body that inflates beyond the limit is refused with the limit and its flag', async () => {
  const inflater = new BodyInflater(1000)
  assert.equal(
    (await inflate(inflater, gzipSync(Buffer.alloc(1001)))).message,
    'Decompressed data size exceeds the maximum allowed value of 1000 bytes. Use --http-max-input-size to increase the limit.',
  )
  assert.equal((await inflate(inflater, gzipSync(Buffer.alloc(1000)))).message, null)
})

test('a body of zeros is refused with its growth and its flag, or inflated where the flag says so, small ones and large ones', async () => {
  const mib = 1024 * 1024
  const inflater = new BodyInflater(64 * mib)
  const unbounded = (): RequestMemory => newMemory(new ClientMemory(1024 * mib, null, Infinity))
  for (const size of [4_200_000, 20 * mib]) {
    const zeros = deflateSync(Buffer.alloc(size), { level: 9 })
    assert.equal(
      (await inflate(inflater, zeros)).message,
      `Decompressed data size exceeds 100 times the ${zeros.length} bytes of the request body. ` +
        'Send it less compressed, or use --max-decompression-ratio to increase the limit.',
    )
    const { message, bytes } = await inflate(inflater, zeros, unbounded())
    assert.equal(message, null)
    assert.equal(bytes.length, size)
  }
})

test('an empty compressed body is refused, one that was never compressed counts as empty', async () => {
  const inflater = new BodyInflater(1000)
  assert.equal((await inflate(inflater, Buffer.alloc(0))).message, 'nothing to be decompressed')
  const plain = await inflate(inflater, Buffer.from('{"inputs":[]}'))
  assert.equal(plain.message, null)
  assert.equal(plain.bytes.length, 0)
})

test('a stream that breaks off or fails its checksum is refused', async () => {
  const inflater = new BodyInflater(100_000)
  const whole = gzipSync(Buffer.from('some text that matters'))
  const cut = await inflate(inflater, whole.subarray(0, whole.length - 6))
  assert.match(cut.message ?? '', /^failed to decompress the request body: /)
  const spoiled = Buffer.from(whole)
  spoiled.writeUInt8(whole.readUInt8(whole.length - 8) ^ 0xff, whole.length - 8)
  assert.match((await inflate(inflater, spoiled)).message ?? '', /^failed to decompress the request body: /)
})

test('more large bodies than may be inflated at once all come out', async () => {
  const inflater = new BodyInflater(10_000_000)
  const bodies = Array.from({ length: 20 }, (_, n) =>
    gzipSync(Buffer.from(Uint8Array.from({ length: 20_000 }, (_, i) => (i * i * (n + 3) + (i >> 5)) & 255)), {
      level: 0,
    }),
  )
  const all = await Promise.all(bodies.map((body) => inflate(inflater, body)))
  assert.ok(all.every(({ message, bytes }) => message === null && bytes.length === 20_000))
})

test('answers are compressed as gzip or in a zlib container', async () => {
  for (const size of [100, 100_000]) {
    const plain = Buffer.alloc(size, 'abc')
    const compressed = (encoding: 'gzip' | 'deflate'): Promise<Buffer | null> =>
      new Promise((resolve) => {
        deflateBody(plain, encoding, resolve)
      })
    assert.ok(gunzipSync((await compressed('gzip')) as Buffer).equals(plain))
    assert.ok(inflateSync((await compressed('deflate')) as Buffer).equals(plain))
  }
})

test('a large answer is compressed in parts, which are not put together, and can be given up', async () => {
  const parts = [Buffer.from('head'), randomBytes(3_000_000), new Uint8Array(0), Buffer.alloc(2_000_001, 'abc')]
  const compressed = (encoding: 'gzip' | 'deflate'): Promise<Buffer[] | null> =>
    new Promise((resolve) => {
      deflateParts(parts, encoding, resolve)
    })
  const gzipped = (await compressed('gzip')) as Buffer[]
  assert.ok(gzipped.length > 1)
  assert.ok(gzipped.every((piece) => piece.length <= 64 * 1024))
  assert.ok(gunzipSync(Buffer.concat(gzipped)).equals(Buffer.concat(parts)))
  assert.ok(inflateSync(Buffer.concat((await compressed('deflate')) as Buffer[])).equals(Buffer.concat(parts)))
  const given = await new Promise((resolve) => deflateParts(parts, 'gzip', resolve).stop())
  assert.equal(given, null)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createGunzip, createInflate, createUnzip, deflateSync, gzipSync } from 'node:zlib'
import { inflateBytes, InflatedTooLarge, type OpenInflater } from './inflate-bytes.ts'

const inflated = (open: OpenInflater, bytes: Buffer, mostBytes = 1e9): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    inflateBytes(open, bytes, mostBytes, (error, out) => (error === null ? resolve(out) : reject(error)))
  })

/** Bytes that do not repeat, so that a piece in the wrong place shows. */
const counted = (size: number): Buffer => {
  const bytes = Buffer.alloc(size)
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE(Math.imul(at, 2_654_435_761) >>> 0, at)
  return bytes
}

test('what comes out is what went in, for every size and both formats', async () => {
  for (const size of [0, 1, 16_383, 16_384, 16_385, 65_536, 1 << 20, (1 << 20) + 1, 5_000_001]) {
    const bytes = counted(size)
    assert.ok((await inflated(createGunzip, gzipSync(bytes))).equals(bytes), `gzip of ${size}`)
    assert.ok((await inflated(createInflate, deflateSync(bytes))).equals(bytes), `zlib of ${size}`)
    const zeros = Buffer.alloc(size)
    assert.ok((await inflated(createUnzip, gzipSync(zeros))).equals(zeros), `zeros of ${size}`)
    assert.ok((await inflated(createUnzip, deflateSync(zeros))).equals(zeros), `zlib zeros of ${size}`)
  }
})

test('the stated size of a gzip body is a hint: a wrong one is an error and takes no memory beyond the limit', async () => {
  const lying = gzipSync(counted(300_000))
  lying.writeUInt32LE(0xffff_ffff, lying.length - 4)
  await assert.rejects(inflated(createGunzip, lying, 1e6), /incorrect length check/)
})

test('several gzip members make one body', async () => {
  const parts = [counted(70_000), counted(3), counted(200_000)]
  const out = await inflated(createGunzip, Buffer.concat(parts.map((part) => gzipSync(part))))
  assert.ok(out.equals(Buffer.concat(parts)))
})

test('the limit is exact', async () => {
  const body = gzipSync(Buffer.alloc(2_000_000))
  assert.equal((await inflated(createGunzip, body, 2_000_000)).length, 2_000_000)
  await assert.rejects(inflated(createGunzip, body, 1_999_999), InflatedTooLarge)
})

test('a buffer is not much larger than what is in it, and pieces are freed at once', async () => {
  const out = await inflated(createInflate, deflateSync(counted(4_300_000)))
  assert.ok(out.buffer.byteLength < 6_000_000, `${out.buffer.byteLength} bytes for ${out.length}`)
  const body = gzipSync(Buffer.alloc(64 << 20))
  const before = process.memoryUsage().arrayBuffers
  const whole = await inflated(createGunzip, body)
  const heldBytes = process.memoryUsage().arrayBuffers - before
  assert.ok(heldBytes < whole.length + (4 << 20), `${heldBytes} bytes are held for ${whole.length}`)
})

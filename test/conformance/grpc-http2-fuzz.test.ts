// Conversations of right, wrong and damaged frames with the HTTP/2 connection, while its streams answer, pause and break
// off: it never throws, never sends half a frame, and leaves no stream and no memory behind.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  encodeFrame,
  encodeSettings,
  encodeWindowUpdate,
  errorCodes,
  frameFlags,
  frameTypes,
} from '../../src/transport/http2/http2-format.ts'
import { encodeHeaderBlock, okTrailers, plainHead } from '../../src/transport/http2/hpack-encoder.ts'
import { Http2Loopback, type CountingUser, type SentFrame } from './http2-loopback.ts'
import { dataOf, greeting, headersOf, requestFields } from './http2-raw-client.ts'

const streamId = fc.oneof({ weight: 8, arbitrary: fc.constantFrom(1, 3, 5, 7, 9, 11) }, fc.nat({ max: 14 }))
const bytes = (maxLength: number): fc.Arbitrary<Uint8Array> => fc.uint8Array({ maxLength })
const keptHeader = Buffer.from('4001610162', 'hex')

const goodFrame: fc.Arbitrary<Buffer> = fc.oneof(
  { weight: 6, arbitrary: streamId.map((id) => headersOf(id, requestFields('/a/b'))) },
  { weight: 2, arbitrary: streamId.map((id) => headersOf(id, requestFields('/a/b'), 5)) },
  {
    weight: 1,
    arbitrary: streamId.map((id) =>
      encodeFrame(frameTypes.HEADERS, 4, id, Buffer.concat([encodeHeaderBlock(requestFields('/c')), keptHeader])),
    ),
  },
  { weight: 6, arbitrary: fc.tuple(streamId, bytes(400)).map(([id, body]) => dataOf(id, Buffer.from(body), 0)) },
  {
    weight: 2,
    arbitrary: fc.tuple(streamId, fc.nat({ max: 90_000 })).map(([id, n]) => dataOf(id, Buffer.alloc(n), 1)),
  },
  { weight: 1, arbitrary: streamId.map((id) => encodeFrame(frameTypes.RST_STREAM, 0, id, Buffer.of(0, 0, 0, 8))) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom(0, 1, 3, 5, 7), fc.oneof(fc.nat({ max: 100_000 }), fc.nat({ max: 2 ** 31 - 1 })))
      .map(([id, n]) => encodeWindowUpdate(id, n)),
  },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.tuple(fc.nat({ max: 7 }), fc.oneof(fc.nat({ max: 70_000 }), fc.nat())), { maxLength: 3 })
      .map(encodeSettings),
  },
)

const anyFrame = fc
  .tuple(fc.nat({ max: 11 }), fc.constantFrom(0, 1, 4, 5, 8, 12, 0x20, 0xff), streamId, bytes(80))
  .map(([type, flags, id, payload]) => encodeFrame(type, flags, id, payload))

/** What the client does, and what the server's calls do. The numbers choose a stream and an amount. */
const act = fc.oneof(
  { weight: 10, arbitrary: goodFrame.map((frame) => ({ kind: 'say', frame }) as const) },
  { weight: 1, arbitrary: anyFrame.map((frame) => ({ kind: 'say', frame }) as const) },
  {
    weight: 1,
    arbitrary: fc.tuple(goodFrame, fc.nat(), fc.nat({ max: 255 })).map(([frame, at, byte]) => {
      const damaged = Buffer.from(frame)
      damaged[at % damaged.length] = byte
      return { kind: 'say', frame: damaged } as const
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom('answer', 'end', 'reset', 'pause', 'resume', 'flush', 'flush', 'deaf', 'listen'),
      which: fc.nat({ max: 6 }),
      amount: fc.oneof(fc.nat({ max: 300 }), fc.nat({ max: 50_000 })),
    }),
  },
)

type Act = typeof act extends fc.Arbitrary<infer Action> ? Action : never

class Conversation {
  readonly loopback = new Http2Loopback()
  readonly #ended = new Set<number>()
  readonly #headed = new Set<CountingUser>()
  readonly #finished = new Set<CountingUser>()
  given = 0
  released = 0

  act(action: Act): void {
    if (action.kind === 'say') {
      this.loopback.say(action.frame)
      return
    }
    const user = this.loopback.users[action.which]
    if (action.kind === 'flush') this.flush()
    else if (action.kind === 'deaf' || action.kind === 'listen') this.loopback.setReading(action.kind === 'listen')
    else if (user !== undefined) this.#actOn(user, action.kind, action.amount)
  }

  #actOn(user: CountingUser, kind: string, amount: number): void {
    const { stream } = user
    if (kind === 'pause' || kind === 'resume') stream.setPaused(kind === 'pause')
    else if (kind === 'reset') stream.reset(errorCodes.CANCEL)
    else if (kind === 'answer' && !this.#finished.has(user)) {
      if (!this.#headed.has(user)) stream.sendHead(plainHead)
      this.#headed.add(user)
      this.given++
      const parts = [new Uint8Array(amount), new Uint8Array(3)]
      stream.sendMessage({ parts, byteLength: amount + 3 }, 0, () => this.released++)
    } else if (kind === 'end' && !this.#finished.has(user)) {
      this.#finished.add(user)
      stream.sendTrailers(okTrailers)
    }
  }

  flush(): void {
    this.loopback.flush()
    for (const frame of this.loopback.takeFrames()) this.#checkSent(frame)
  }

  #checkSent({ type, flags, streamId: id }: SentFrame): void {
    const isOfStream = type === frameTypes.DATA || type === frameTypes.HEADERS
    if (isOfStream) assert.ok(!this.#ended.has(id), `frame ${type} on stream ${id} after its end`)
    if (type === frameTypes.RST_STREAM || (isOfStream && (flags & frameFlags.END_STREAM) !== 0)) this.#ended.add(id)
  }
}

test('whatever is said, the connection keeps its word and its memory', async () => {
  let conversations = 0
  let failures = 0
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 1, maxLength: 60 }), async (acts) => {
      const conversation = new Conversation()
      const { loopback } = conversation
      loopback.say(greeting)
      for (const each of acts) conversation.act(each)
      conversation.flush()
      conversations++
      if (loopback.failure !== null) failures++
      await loopback.close()
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(loopback.connection.streamCount, 0)
      for (const { closes, ends } of loopback.users)
        assert.ok(closes === 1 && ends <= 1, `${closes} closes, ${ends} ends`)
      assert.equal(conversation.released, conversation.given, 'memory of answers')
    }),
    { numRuns: 3000 },
  )
  // Neither all of them nor none: else the test would look at one side only.
  assert.ok(failures > conversations / 20 && failures < conversations * 0.95, `${failures} of ${conversations} failed`)
})

test('bytes without any sense end the connection, however they are cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(bytes(300), { maxLength: 10 }), async (isGreeted, chunks) => {
      const loopback = new Http2Loopback()
      if (isGreeted) loopback.say(greeting)
      for (const chunk of chunks) loopback.say(chunk)
      loopback.flush()
      loopback.takeFrames()
      await loopback.close()
      assert.equal(loopback.connection.streamCount, 0)
    }),
    { numRuns: 1000 },
  )
})

test('a conversation means the same however its bytes are cut', async () => {
  const cut = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(fc.array(goodFrame, { maxLength: 15 }), cut, async (frames, cuts) => {
      const whole = new Http2Loopback()
      const pieces = new Http2Loopback()
      const said = Buffer.concat([greeting, ...frames])
      whole.say(said)
      for (let at = 0, i = 0; at < said.length; i++) {
        const end = at + (said.length > 5000 ? 997 : (cuts[i % cuts.length] ?? 1))
        pieces.say(said.subarray(at, end))
        at = end
      }
      for (const loopback of [whole, pieces]) loopback.flush()
      const seen = ({ users, failure }: Http2Loopback): unknown => [
        failure?.message,
        users.map((user) => [user.stream.id, user.bytes, user.ends, user.closes]),
      ]
      assert.deepEqual(seen(pieces), seen(whole))
      assert.deepEqual(pieces.takeFrames(), whole.takeFrames())
      await whole.close()
      await pieces.close()
    }),
    { numRuns: 500 },
  )
})

import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { ServerError } from '../base/server-error.ts'
import { factsOfGguf } from './facts-of-gguf.ts'
import { readGgufFile } from './gguf-file.ts'

const u32 = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer)
const u64 = (value: number | bigint): Buffer => Buffer.from(BigUint64Array.of(BigInt(value)).buffer)
const text = (value: string): Buffer => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)])
const textKey = (key: string, value: string): Buffer => Buffer.concat([text(key), u32(8), text(value)])
const countKey = (key: string, value: number): Buffer => Buffer.concat([text(key), u32(4), u32(value)])
const listKey = (key: string, values: string[]): Buffer =>
  Buffer.concat([text(key), u32(9), u32(8), u64(values.length), ...values.map(text)])
const tensor = (name: string, dims: number[], type: number, offset: number): Buffer =>
  Buffer.concat([text(name), u32(dims.length), ...dims.map(u64), u32(type), u64(offset)])

function file(parts: {
  keys?: Buffer[]
  tensors?: Buffer[]
  data?: number
  version?: number
  keyCount?: number
}): Buffer {
  const keys = parts.keys ?? [textKey('general.architecture', 'llama')]
  const tensors = parts.tensors ?? []
  const head = Buffer.concat([
    Buffer.from('GGUF'), u32(parts.version ?? 3), u64(tensors.length), u64(parts.keyCount ?? keys.length), ...keys, ...tensors,
  ]) // prettier-ignore
  const start = Math.ceil(head.length / 32) * 32
  return Buffer.concat([head, Buffer.alloc(start - head.length + (parts.data ?? 0))])
}

const folder = mkdtempSync(path.join(tmpdir(), 'galatea-gguf-'))
after(() => rmSync(folder, { recursive: true, force: true }))
function read(bytes: Buffer): ReturnType<typeof readGgufFile> {
  const name = path.join(folder, 'model.gguf')
  writeFileSync(name, bytes)
  return readGgufFile(name)
}

const whole = file({
  keys: [
    textKey('general.architecture', 'llama'), countKey('llama.context_length', 512), countKey('llama.embedding_length', 64),
    countKey('tokenizer.ggml.eos_token_id', 1), listKey('tokenizer.ggml.tokens', ['a', '</s>', 'c']),
    textKey('tokenizer.chat_template', '{{ messages }}'),
  ],
  tensors: [tensor('a', [64, 2], 0, 0), tensor('b', [64], 2, 512)],
  data: 512 + 36,
}) // prettier-ignore

test('the header tells what the model is', async () => {
  const facts = factsOfGguf(await read(whole))
  assert.deepEqual(facts, {
    kind: 'generate', contextLength: 512, embeddingLength: 64, vocabularySize: 3, chatTemplate: '{{ messages }}', eosToken: '</s>',
  }) // prettier-ignore
  const bert = file({ keys: [textKey('general.architecture', 'bert'), countKey('bert.pooling_type', 4)] })
  assert.equal(factsOfGguf(await read(bert)).kind, 'rerank')
})

test('a file that is not whole, or that no model can be, fails with what is wrong', async () => {
  const bad: [bytes: Buffer, problem: RegExp][] = [
    [Buffer.from('hello'), /it has 5 bytes, and the header alone has 24/],
    [Buffer.alloc(100), /does not begin with 'GGUF'/],
    [file({ version: 9 }), /version is 9, expected 2 or 3/],
    [file({ keys: [] }), /no key 'general.architecture'/],
    [file({ keyCount: 65_537 }), /names 65537 keys, at most 65536 are read/],
    [file({ keyCount: 5 }), /ends in the middle|bytes, at most/],
    [whole.subarray(0, whole.length - 1), /is cut short: tensor 'b' ends at byte \d+, the file has \d+/],
    [whole.subarray(0, 200), /ends in the middle of|more than the rest/],
    [
      file({ tensors: [tensor('t', [33], 2, 0)], data: 64 }),
      /tensor 't' has the shape \[33\], which its type does not allow/,
    ],
    [file({ tensors: [tensor('t', [1, 1, 1, 1, 1], 0, 0)] }), /5 dimensions, at most 4/],
    [file({ tensors: [tensor('t', [4], 0, 3)], data: 64 }), /no multiple of 32/],
    [file({ tensors: [tensor('t', [2 ** 40, 2 ** 40], 0, 0)] }), /does not allow/],
    [file({ keys: [Buffer.concat([text('k'), u32(77)])] }), /unknown type 77/],
    [file({ keys: [Buffer.concat([u64(2n ** 63n)])] }), /a key has Infinity bytes, at most 65535/],
    [
      file({ keys: [Buffer.concat([text('k'), u32(9), u32(8), u64(2n ** 40n)])] }),
      /more than the rest of the file holds/,
    ],
    [file({ keys: [Buffer.concat([text('k'), u32(8), u64(17 * 1024 * 1024)])] }), /at most 16777216 are read/],
  ]
  for (const [bytes, problem] of bad) await assert.rejects(read(bytes), { code: 'INVALID_ARG', message: problem })
})

test('a file of few blocks on the disk does not make the reader count or keep what it says it has', async () => {
  const list = Buffer.concat([text('tokenizer.ggml.tokens'), u32(9), u32(8), u64(4_194_305)])
  const name = path.join(folder, 'sparse.gguf')
  // Each key has a text of 16 MiB, all of it a hole in the file.
  const holes = ['a', 'b', 'c', 'd', 'e'].map((key) => Buffer.concat([text(key), u32(8), u64(16 * 2 ** 20)]))
  writeFileSync(name, file({ keys: holes.slice(0, 1), keyCount: holes.length }).subarray(0, 24))
  let at = 24
  const handle = openSync(name, 'r+')
  for (const hole of holes) {
    writeSync(handle, hole, 0, hole.length, at)
    at += hole.length + 16 * 2 ** 20
  }
  closeSync(handle)
  truncateSync(name, at)
  await assert.rejects(readGgufFile(name), { message: /keys and texts have more than 67108864 bytes together/ })
  writeFileSync(name, file({ keys: [list] }))
  truncateSync(name, 64 * 2 ** 20)
  await assert.rejects(readGgufFile(name), { message: /lists have 4194305 texts or more, at most 4194304 are read/ })
})

test('a file with any byte changed is read or refused, and never anything else', async () => {
  for (let at = 0; at < whole.length - 600; at++) {
    for (const value of [0, 0xff]) {
      const bytes = Buffer.from(whole)
      bytes[at] = value
      await read(bytes).catch((reason: unknown) => assert.ok(reason instanceof ServerError, String(reason)))
    }
  }
})

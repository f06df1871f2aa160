// Messages that take long to read for their size, for any message of the tables and any endpoint: many fields, long texts,
// many digits, deep nesting, escapes.

import type { FieldSchema, MessageSchema } from '../../src/protobuf/message-schema.ts'
import { ProtobufWriter } from '../../src/protobuf/protobuf-writer.ts'

/** Made when it is asked for: a message of many keys takes longer to make than to read. */
type Hostile = readonly [what: string, make: () => Buffer]
/** With the field of a message inside that is filled; null: a field of the message itself. */
type HostileMessage = readonly [...Hostile, inner: string | null]

const field = (number: number, body: Uint8Array): Buffer => {
  const writer = new ProtobufWriter()
  writer.tag(number, 2)
  writer.raw(body)
  return Buffer.from(writer.finish())
}
const varint = (number: number): Buffer => {
  const writer = new ProtobufWriter()
  writer.integerField(number, 2n ** 63n)
  return Buffer.from(writer.finish())
}
const filled = (bytes: Uint8Array, size: number): Buffer =>
  Buffer.alloc(Math.max(1, Math.floor(size / bytes.length)) * bytes.length, bytes)

/** Of about `size` bytes each. `deepest` messages inside of messages are filled, too. */
export function* hostileMessages(schema: MessageSchema, size: number, deepest = 3): Generator<HostileMessage> {
  yield ['unknown numbers', () => filled(varint(99), size), null]
  yield ['unknown texts', () => filled(field(99, Buffer.alloc(0)), size), null]
  yield ['groups', () => filled(Buffer.of(0x9b, 0x06, 0x9c, 0x06), size), null]
  yield ['open groups', () => filled(Buffer.of(0x9b, 0x06), size), null]
  for (const one of schema.fields) yield* hostileFields(one, size, deepest)
}

function* hostileFields(one: FieldSchema, size: number, deepest: number): Generator<HostileMessage> {
  const { number, wireName: name, message, kind } = one
  const inside = (what: string, make: () => Buffer, inner: string | null = null): HostileMessage => [
    `${name}: ${what}`,
    make,
    inner,
  ]
  yield inside('empty, many times', () => filled(field(number, Buffer.alloc(0)), size))
  yield inside('numbers, many times', () => filled(varint(number), size))
  yield inside('texts, many times', () => filled(field(number, Buffer.from('\u00e9t\u00e9')), size))
  yield inside('digits', () => field(number, Buffer.alloc(size - 16, '9')))
  yield inside('no ASCII', () => field(number, filled(Buffer.from('\u00e9'), size - 16)))
  if (kind === 'map') {
    const entry = (i: number): Buffer =>
      field(number, Buffer.concat([field(1, Buffer.from(`key${i}`)), field(2, Buffer.alloc(0))]))
    yield inside('many keys', () => Buffer.concat(Array.from({ length: Math.floor(size / 24) }, (_, i) => entry(i))))
    yield inside('one key, many times', () => field(number, filled(field(1, Buffer.from('key')), size - 16)))
  }
  if (message === null || deepest === 0) return
  for (const [what, make, inner] of hostileMessages(message, size - 16, kind === 'map' ? 0 : deepest - 1)) {
    const whole = (): Buffer =>
      kind === 'map' ? Buffer.concat([field(1, Buffer.from('key')), field(2, make())]) : make()
    yield inside(what, () => field(number, whole()), inner ?? `${message.name}.${what}`)
  }
}

const list = (size: number, element: (index: number) => string): string => {
  const length = Math.max(1, Math.floor(size / (element(0).length + 1)))
  return Array.from({ length }, (_, i) => element(i)).join()
}
const request = (dataType: string, data: string, more = ''): string =>
  `{"inputs":[{"name":"X","datatype":"${dataType}","shape":[1],"data":[${data}]${more}}]}`

/** Bodies of about `size` bytes each. */
export function* hostileBodies(size: number): Generator<Hostile> {
  const bodies: [string, string][] = [
    ['names with escapes', `{${list(size, () => '"\\n\\n\\n":1')}}`],
    ['parameters with escapes', `{"parameters":{${list(size, (i) => `"\\u0061${i}":1`)}}}`],
    ['many names', `{${list(size, (i) => `"a${i}":1`)}}`],
    ['names inside', `{"inputs":[{${list(size, () => '"\\u006eame":1')}}]}`],
    ['inputs', `{"inputs":[${list(size, () => '{}')}]}`],
    ['outputs', `{"inputs":[],"outputs":[${list(size, () => '{}')}]}`],
    ['shape', `{"inputs":[{"name":"X","shape":[${list(size, () => '1')}]}]}`],
    ['lists', '['.repeat(size)],
    ['closed lists', '['.repeat(size / 2) + ']'.repeat(size / 2)],
    ['objects', '{"a":'.repeat(size / 5)],
    ['digits', `{"id":${'9'.repeat(size)}}`],
    ['digits in a text', `{"trace_rate":"${'9'.repeat(size)}","log_verbose_level":${'9'.repeat(300)}}`],
    ['digits of a shape', `{"inputs":[{"name":"X","shape":[${'9'.repeat(size)}]}]}`],
    [
      'exponents',
      request(
        'FP32',
        list(size, () => '1e-308'),
      ),
    ],
    [
      'long numbers',
      request(
        'FP32',
        list(size, () => `0.${'7'.repeat(29)}`),
      ),
    ],
    ['texts of escapes', request('BYTES', `"${'\\u00e9'.repeat(size / 6)}"`)],
    [
      'short texts',
      request(
        'BYTES',
        list(size, () => '""'),
      ),
    ],
    ['texts for generate', `{"X":"${'\\n'.repeat(size / 2)}"}`],
    ['lists for generate', `{"X":[${list(size, () => '"a"')}]}`],
    ['rows', `{"instances":[${list(size, () => '[1]')}]}`],
    ['rows by name', `{"instances":[${list(size, () => '{"X":1}')}]}`],
    [
      'classes',
      request(
        'FP32',
        list(size, () => '1'),
      ).replace('}]}', '}],"outputs":[{"name":"Y","parameters":{"classification":999999}}]}'),
    ],
    ['white space', ' '.repeat(size)],
    ['no JSON', '\u0000\u00ff'.repeat(size / 3)],
  ]
  for (const [what, text] of bodies) yield [what, () => Buffer.from(text)]
}

// Reads and checks the header of a GGUF file: what the model is, and whether the file is whole. llama.cpp ends the process on
// some files, so a file is read here before the library gets it.

import { open } from 'node:fs/promises'
import { messageOf, ServerError } from '../base/server-error.ts'
import { GgufCursor, GgufProblem } from './gguf-cursor.ts'
import { ggufTensorBytes } from './gguf-tensor-bytes.ts'

type GgufValue = string | number | boolean
export type GgufFile = {
  readonly architecture: string
  /** All values but lists. */
  readonly values: ReadonlyMap<string, GgufValue>
  readonly tensorCount: number
  readonly tokenCount: number
  /** The texts of the tokens that begin and end a text; '': there is none. */
  readonly bosToken: string
  readonly eosToken: string
}

const ggufLimits = {
  keys: 65_536,
  tensors: 1_000_000,
  keyBytes: 65_535,
  textBytes: 16 * 1024 * 1024,
  allTextBytes: 64 * 1024 * 1024,
  listedTexts: 4_194_304,
  dimensions: 4,
}

const magic = 0x46554747
const valueBytes: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
}
const textType = 8
const listType = 9
const tokensKey = 'tokenizer.ggml.tokens'

type Header = {
  values: Map<string, GgufValue>
  tokenPlaces: Float64Array
  /** Of all keys: the bytes of texts that are kept, and the texts of lists. */
  textBytes: number
  listedTexts: number
}

/** Throws INVALID_ARG with what is wrong with the file. */
export async function readGgufFile(path: string): Promise<GgufFile> {
  const file = await open(path).catch((reason: unknown) => {
    throw new ServerError('UNAVAILABLE', `cannot open '${path}': ${messageOf(reason)}`)
  })
  try {
    const { size } = await file.stat()
    return await readHeader(new GgufCursor(file, size))
  } catch (reason) {
    if (!(reason instanceof GgufProblem)) throw reason
    throw new ServerError('INVALID_ARG', `'${path}' is not a GGUF file that can be served: ${reason.message}`)
  } finally {
    await file.close()
  }
}

async function readHeader(cursor: GgufCursor): Promise<GgufFile> {
  if (cursor.size < 24) throw new GgufProblem(`it has ${cursor.size} bytes, and the header alone has 24`)
  await cursor.need(24, 'the header')
  if (cursor.u32() !== magic) throw new GgufProblem("it does not begin with 'GGUF'")
  const version = cursor.u32()
  if (version !== 2 && version !== 3) throw new GgufProblem(`its version is ${version}, expected 2 or 3`)
  const tensorCount = cursor.u64()
  const keyCount = cursor.u64()
  if (tensorCount > ggufLimits.tensors)
    throw new GgufProblem(`it names ${tensorCount} tensors, at most ${ggufLimits.tensors} are read`)
  if (keyCount > ggufLimits.keys)
    throw new GgufProblem(`it names ${keyCount} keys, at most ${ggufLimits.keys} are read`)
  const header: Header = { values: new Map(), tokenPlaces: new Float64Array(0), textBytes: 0, listedTexts: 0 }
  for (let i = 0; i < keyCount; i++) await readKey(cursor, header)
  await checkTensors(cursor, tensorCount, header.values)
  const architecture = header.values.get('general.architecture')
  if (typeof architecture !== 'string') throw new GgufProblem("it has no key 'general.architecture'")
  const { values, tokenPlaces } = header
  const token = async (key: string): Promise<string> => tokenText(cursor, tokenPlaces, values.get(key))
  return {
    architecture,
    values,
    tensorCount,
    tokenCount: tokenPlaces.length,
    bosToken: await token('tokenizer.ggml.bos_token_id'),
    eosToken: await token('tokenizer.ggml.eos_token_id'),
  }
}

async function readText(cursor: GgufCursor, most: number, what: string): Promise<string> {
  return (await readTextBytes(cursor, most, what)).toString('utf8')
}

async function readTextBytes(cursor: GgufCursor, most: number, what: string): Promise<Buffer> {
  await cursor.need(8, what)
  const length = cursor.u64()
  if (length > most) throw new GgufProblem(`${what} has ${length} bytes, at most ${most} are read`)
  await cursor.need(length, what)
  return cursor.bytes(length)
}

async function readKey(cursor: GgufCursor, header: Header): Promise<void> {
  const key = await readText(cursor, ggufLimits.keyBytes, 'a key')
  await cursor.need(4, `the key '${key}'`)
  const type = cursor.u32()
  if (type === listType) {
    const places = await skipList(cursor, key, header)
    if (key === tokensKey) header.tokenPlaces = places
    return
  }
  const value = await readValue(cursor, type, key)
  header.textBytes += key.length + (typeof value === 'string' ? value.length : 0)
  if (header.textBytes > ggufLimits.allTextBytes)
    throw new GgufProblem(`its keys and texts have more than ${ggufLimits.allTextBytes} bytes together`)
  header.values.set(key, value)
}

async function readValue(cursor: GgufCursor, type: number, key: string): Promise<GgufValue> {
  const what = `the value of '${key}'`
  if (type === textType) return readText(cursor, ggufLimits.textBytes, what)
  const size = valueBytes[type]
  if (size === undefined) throw new GgufProblem(`${what} has the unknown type ${type}`)
  await cursor.need(size, what)
  const bytes = cursor.bytes(size)
  switch (type) {
    case 1:
      return bytes.readInt8()
    case 3:
      return bytes.readInt16LE()
    case 5:
      return bytes.readInt32LE()
    case 6:
      return bytes.readFloatLE()
    case 7:
      return bytes[0] !== 0
    case 11:
      return Number(bytes.readBigInt64LE())
    case 12:
      return bytes.readDoubleLE()
    default:
      return size === 8 ? Number(bytes.readBigUInt64LE()) : bytes.readUIntLE(0, size)
  }
}

/** The places of the texts of a list of texts; none for other lists. */
async function skipList(cursor: GgufCursor, key: string, header: Header): Promise<Float64Array> {
  const what = `the list '${key}'`
  await cursor.need(12, what)
  const type = cursor.u32()
  const length = cursor.u64()
  const size = valueBytes[type]
  // A text has at least the eight bytes of its length.
  const least = length * (type === textType ? 8 : (size ?? Infinity))
  if (!(least <= cursor.size - cursor.position)) {
    throw new GgufProblem(`${what} has ${length} values of type ${type}, more than the rest of the file holds`)
  }
  if (type !== textType) {
    cursor.moveTo(cursor.position + least)
    return new Float64Array(0)
  }
  header.listedTexts += length
  if (header.listedTexts > ggufLimits.listedTexts)
    throw new GgufProblem(
      `its lists have ${header.listedTexts} texts or more, at most ${ggufLimits.listedTexts} are read`,
    )
  const places = new Float64Array(key === tokensKey ? length : 0)
  for (let i = 0; i < length; i++) {
    if (i < places.length) places[i] = cursor.position
    if (!cursor.has(8)) await cursor.need(8, what)
    const bytes = cursor.u64()
    if (bytes > cursor.size - cursor.position) throw new GgufProblem(`it ends in the middle of ${what}`)
    cursor.moveTo(cursor.position + bytes)
  }
  return places
}

async function checkTensors(cursor: GgufCursor, count: number, values: Header['values']): Promise<void> {
  const alignment = values.get('general.alignment') ?? 32
  if (typeof alignment !== 'number' || !(alignment > 0) || alignment % 8 !== 0) {
    throw new GgufProblem(`its key 'general.alignment' is ${String(alignment)}, expected a multiple of 8`)
  }
  let end = 0
  let lastName = ''
  for (let i = 0; i < count; i++) {
    const name = await readText(cursor, ggufLimits.keyBytes, `the name of tensor ${i}`)
    const what = `tensor '${name}'`
    await cursor.need(4, what)
    const dimensions = cursor.u32()
    if (dimensions > ggufLimits.dimensions)
      throw new GgufProblem(`${what} has ${dimensions} dimensions, at most 4 are known`)
    await cursor.need(8 * dimensions + 12, what)
    const shape = Array.from({ length: dimensions }, () => cursor.u64())
    const bytes = ggufTensorBytes(cursor.u32(), shape)
    const offset = cursor.u64()
    if (bytes === null)
      throw new GgufProblem(`${what} has the shape [${shape.join(', ')}], which its type does not allow`)
    if (offset % alignment !== 0)
      throw new GgufProblem(`${what} begins at ${offset}, which is no multiple of ${alignment}`)
    if (offset + bytes > end) {
      end = offset + bytes
      lastName = name
    }
  }
  const start = Math.ceil(cursor.position / alignment) * alignment
  if (start + end > cursor.size) {
    throw new GgufProblem(
      `it is cut short: tensor '${lastName}' ends at byte ${start + end}, the file has ${cursor.size}`,
    )
  }
}

async function tokenText(cursor: GgufCursor, places: Float64Array, id: GgufValue | undefined): Promise<string> {
  const place = typeof id === 'number' ? places[id] : undefined
  if (place === undefined) return ''
  cursor.moveTo(place)
  return readText(cursor, ggufLimits.keyBytes, 'a token')
}

// What the head of a request says about where it belongs: the model, the version, the sequence, the beginning of the prompt. The head may
// be cut anywhere.

import { percentDecoded } from '../base/percent-decoded.ts'
import { ProtobufReader } from '../protobuf/protobuf-reader.ts'

export type RequestFacts = {
  /** '' where the head does not say it. */
  model: string
  version: string
  /** '' for a request that belongs to no sequence. */
  sequence: string
  isSequenceEnd: boolean
  /** The beginning of the prompt, '' where there is none. */
  prompt: string
  /** One call with many requests. */
  isStream: boolean
}

const noFacts = (): RequestFacts => ({
  model: '',
  version: '',
  sequence: '',
  isSequenceEnd: false,
  prompt: '',
  isStream: false,
})

/** So much of a prompt decides which server has its beginning in the cache. */
const promptChars = 512

const inPath = /^\/v[12]\/models\/([^/:?]+)(?:\/versions\/(\d+))?(?:[/:?]|$)/

export function factsOfPath(path: string): RequestFacts {
  const [, name = '', version = ''] = inPath.exec(path) ?? []
  return { ...noFacts(), model: decoded(name), version, isStream: path.endsWith('/ModelStreamInfer') }
}

const decoded = (text: string): string => percentDecoded(text) ?? text

/** `head`: the first bytes of the body. */
export function factsOfBody(path: string, contentType: string, head: Buffer): RequestFacts {
  const facts = factsOfPath(path)
  if (contentType.startsWith('application/grpc')) readGrpc(path, head, facts)
  else readJson(head, facts)
  return facts
}

function readGrpc(path: string, head: Buffer, facts: RequestFacts): void {
  // A compressed message cannot be read in part.
  if (head.length < 5 || head[0] !== 0) return
  const reader = new ProtobufReader(head, 5, Math.min(head.length, 5 + head.readUInt32BE(1)))
  try {
    if (path.startsWith('/tensorflow.serving.')) readModelSpec(reader, facts)
    else readModelInfer(reader, path.includes('/ModelInfer') || path.includes('/ModelStreamInfer'), facts)
  } catch {
    // The head ends in the middle of a field.
  }
}

/** tensorflow.serving.PredictRequest and its kin: the first field is the ModelSpec, and its first field the name. */
function readModelSpec(reader: ProtobufReader, facts: RequestFacts): void {
  if (reader.tag() !== 10) return
  reader.end = reader.lengthEnd()
  if (reader.tag() === 10) facts.model = reader.string()
}

/** inference.ModelInferRequest; all other requests with a model have its name in the same place. */
function readModelInfer(reader: ProtobufReader, isInfer: boolean, facts: RequestFacts): void {
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) facts.model = reader.string()
    else if (tag === 18) facts.version = reader.string()
    else if (tag === 34 && isInfer) readParameter(reader, facts)
    else reader.skip(tag)
  }
}

function readParameter(reader: ProtobufReader, facts: RequestFacts): void {
  const outerEnd = reader.end
  reader.end = reader.lengthEnd()
  let name = ''
  let value: string | bigint | boolean = ''
  while (reader.at < reader.end) {
    const tag = reader.tag()
    if (tag === 10) name = reader.string()
    else if (tag === 18) {
      const entryEnd = reader.end
      reader.end = reader.lengthEnd()
      while (reader.at < reader.end) {
        const inner = reader.tag()
        if (inner === 8) value = reader.bool()
        else if (inner === 16) value = reader.int64()
        else if (inner === 26) value = reader.string()
        else if (inner === 40) value = reader.uint64()
        else reader.skip(inner)
      }
      reader.end = entryEnd
    } else reader.skip(tag)
  }
  reader.end = outerEnd
  noteParameter(name, value, facts)
}

function noteParameter(name: string, value: unknown, facts: RequestFacts): void {
  if (name === 'sequence_id' && value !== 0n && value !== 0) facts.sequence = String(value).slice(0, 256)
  if (name === 'sequence_end') facts.isSequenceEnd = value === true
}

/** Members that decide, wherever their object ends: the head may be cut before it. */
function readJson(head: Buffer, facts: RequestFacts): void {
  const text = head.toString('utf8')
  const member = (name: string, value: string): string | undefined =>
    new RegExp(`"${name}"\\s*:\\s*${value}`).exec(text)?.[1]
  const quoted = '"((?:[^"\\\\]|\\\\.){1,256})"'
  if (facts.model === '') facts.model = member('model', quoted) ?? ''
  facts.sequence = (member('sequence_id', '(\\d{1,20})') ?? member('sequence_id', quoted) ?? '').replace(/^0$/, '')
  facts.isSequenceEnd = member('sequence_end', '(true)') !== undefined
  const prompt = /"(?:messages|prompt|input)"\s*:/.exec(text)
  if (prompt !== null)
    facts.prompt = text
      .slice(prompt.index + prompt[0].length)
      .trimStart()
      .slice(0, promptChars)
}

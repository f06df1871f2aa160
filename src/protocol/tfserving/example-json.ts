// The body of TensorFlow Serving's `:classify` and `:regress` → serialised tensorflow.Example messages, one for each example.

import type { ServerError } from '../../base/server-error.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { MessageValue } from '../../protobuf/message-codec.ts'
import { jsonTypeName } from '../json-debug-text.ts'
import { memberOf, parseJsonDocument, type JsonNode } from '../json-document.ts'
import { isBase64 } from '../json-text-element.ts'
import { documentText, firstValue, inTheirWords, invalid } from './predict-request.ts'
import { encodeServing } from './serving-messages.ts'
import { inContext } from './serving-request.ts'
import { isKnownSignature } from './tensorflow-type.ts'

/** Values of all examples together. The document is kept whole, and a value costs more memory than its text. */
const mostValues = 65_536

type JsonExamples = { readonly signatureName: string; readonly examples: readonly Buffer[] }

/** Throws what is wrong with a body whatever model it is for. */
export function readJsonExamples(body: Uint8Array): JsonExamples {
  let document: JsonNode
  try {
    document = parseJsonDocument(firstValue(body), mostValues)
  } catch (reason) {
    throw inTheirWords(reason)
  }
  const misformed = (what: string): ServerError => invalid(`JSON Value: ${documentText(body)} ${what}`)
  if (!(document instanceof Map)) throw misformed('Is not object')
  const signature = memberOf(document, 'signature_name')
  if (signature !== undefined && typeof signature !== 'string') {
    throw misformed("not formatted correctly. 'signature_name' key must be a string value.")
  }
  const context = memberOf(document, 'context')
  const shared = context === undefined ? noBytes : encodeExample(context)
  const examples = memberOf(document, 'examples')
  if (examples === undefined) throw misformed("When method is classify, key 'examples' is expected and was not found")
  if (!Array.isArray(examples)) throw misformed("Expecting 'examples' value to be an list/array")
  if (examples.length === 0) throw misformed("'examples' value is an empty array")
  return { signatureName: signature ?? '', examples: inContext(shared, examples.map(encodeExample)) }
}

const noBytes = Buffer.alloc(0)

/** Throws unless a model has a signature of that name. */
export function requireSignature(name: string, signature: ModelSignature): void {
  if (!isKnownSignature(name, signature)) throw invalid(`No signature was found with the name: ${name}`)
}

type Kind = 'bytes' | 'float' | 'int64'
const listNames: Readonly<Record<Kind, string>> = { bytes: 'bytesList', float: 'floatList', int64: 'int64List' }

function encodeExample(node: JsonNode): Buffer {
  if (!(node instanceof Map)) throw invalid(`Example must be JSON object but got JSON ${jsonTypeName(node)}`)
  const feature = new Map<string, MessageValue>()
  for (const [name, content] of node) feature.set(name, featureOf(name, Array.isArray(content) ? content : [content]))
  return encodeServing('Example', { features: { feature } })
}

function featureOf(name: string, values: readonly JsonNode[]): MessageValue {
  const [first] = values
  if (first === undefined) return {}
  const kind = kindOf(first, name)
  const value = values.map((each) => {
    if (kindOf(each, name) !== kind) {
      throw invalid(`Unexpected element type in feature: ${name} expecting type: ${kind}`)
    }
    if (typeof each === 'bigint' && BigInt.asIntN(64, each) !== each) {
      throw invalid(`Feature: ${name} has uint64_t element. Only int64_t is supported.`)
    }
    return kind === 'bytes' ? bytesOf(each) : typeof each === 'boolean' ? Number(each) : each
  })
  return { [listNames[kind]]: { value } }
}

function kindOf(value: JsonNode, name: string): Kind {
  if (typeof value === 'string' || isB64Object(value)) return 'bytes'
  if (typeof value === 'number') return 'float'
  if (typeof value === 'boolean' || typeof value === 'bigint') return 'int64'
  throw invalid(`Feature: ${name} has element with unexpected JSON type: ${jsonTypeName(value)}`)
}

/** `{"b64": "…"}` and no other member. */
const isB64Object = (node: JsonNode): boolean =>
  node instanceof Map && node.size === 1 && typeof memberOf(node, 'b64') === 'string'

function bytesOf(value: JsonNode): Buffer {
  if (typeof value === 'string') return Buffer.from(value)
  const text = memberOf(value, 'b64') as string
  if (!isBase64(text)) throw invalid('Unable to base64 decode')
  return Buffer.from(text, 'base64')
}

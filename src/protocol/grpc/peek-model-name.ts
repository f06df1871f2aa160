import { ProtobufReader } from '../../protobuf/protobuf-reader.ts'

/** Tags: field number × 8 + wire type. */
const modelNameTag = 10
const modelVersionTag = 18
/** `raw_input_contents`, the last field of the message. */
const lastTag = 58
const lengthDelimited = 2

/**
 * The model that a ModelInferRequest asks for, without reading the rest of the message. Null where the usual reader must look: the
 * message names a version, names the model elsewhere than at its beginning, is malformed, or has fields that nobody knows.
 */
export function peekModelName(message: Buffer): string | null {
  if (message.length < 3 || message[0] !== modelNameTag) return null
  const nameBytes = message[1] as number
  if (nameBytes === 0 || nameBytes >= 0x80 || 2 + nameBytes > message.length) return null
  // Whether other bytes are a text at all is for the usual reader to say.
  for (let i = 2; i < 2 + nameBytes; i++) if ((message[i] as number) >= 0x80) return null
  for (let at = 2 + nameBytes; at < message.length;) {
    const tag = message[at++] as number
    if (tag <= modelVersionTag || tag > lastTag || (tag & 7) !== lengthDelimited) return null
    let length = 0
    let shift = 0
    let byte = 0
    do {
      byte = message[at++] ?? 0
      length += (byte & 0x7f) * 2 ** shift
      shift += 7
    } while (byte >= 0x80 && shift < 35)
    at += length
    if (byte >= 0x80 || at > message.length) return null
  }
  return new ProtobufReader(message, 1).name()
}

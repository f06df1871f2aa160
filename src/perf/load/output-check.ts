// Compares answers with the expected outputs of the input data.

import { decodeMessage, type MessageValue } from '../../client/grpc/json-messages.ts'
import { inferResultOf } from '../../client/grpc/infer-message.ts'
import { parseInferBody } from '../../client/http/infer-body.ts'
import type { InferResult } from '../../client/infer-result.ts'
import { messageOf } from '../../base/server-error.ts'
import type { ExpectedOutput, LoadSetup } from './load-order.ts'

/** Null when every expected output is there with the same bytes; else what is wrong. */
export function outputMismatch(
  protocol: LoadSetup['protocol'],
  body: Buffer | null,
  headerLength: number | null,
  expected: readonly ExpectedOutput[],
): string | null {
  let result: InferResult
  try {
    result = parseAnswer(protocol, body ?? Buffer.alloc(0), headerLength)
  } catch (reason) {
    return messageOf(reason)
  }
  for (const { name, bytes } of expected) {
    const output = result.outputs.find((each) => each.name === name)
    if (output === undefined) return `Output '${name}' is expected and was not given`
    if (Buffer.compare(output.bytes, bytes) !== 0) {
      return `Output doesn't match expected output: '${name}' differs`
    }
  }
  return null
}

/** Parses an answer without its frames. Throws when the bytes are not an answer. */
export function parseAnswer(protocol: LoadSetup['protocol'], body: Buffer, headerLength: number | null): InferResult {
  if (protocol === 'http') return parseInferBody(body, headerLength, headerLength !== null)
  if (protocol === 'grpc') return inferResultOf(decodeMessage('ModelInferResponse', body))
  return inferResultOf(decodeMessage('ModelStreamInferResponse', body)['infer_response'] as MessageValue)
}

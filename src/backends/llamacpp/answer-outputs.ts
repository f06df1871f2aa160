import type { LanguageRequest } from '../../llm/language-request.ts'
import { encodeBytesElements } from '../../tensor/bytes-elements.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { EngineMessage, TextMessage } from './engine-protocol.ts'

type Answer = Exclude<Extract<EngineMessage, { key: number }>, { kind: 'failed' }>
type Vectors = Extract<EngineMessage, { kind: 'vectors' }>

const textOutput = (name: string, value: string): Tensor => new Tensor(name, 'BYTES', [1], encodeBytesElements([value]))
const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength)
const countOutput = (name: string, value: number): Tensor =>
  new Tensor(name, 'UINT32', [1], bytesOf(new Uint32Array([value])))

/** The outputs of one answer of the engine, as far as the request asked for them. */
export function answerOutputs(message: Answer, asked: LanguageRequest): Tensor[] {
  switch (message.kind) {
    case 'text':
      return textOutputs(message, asked)
    case 'plain':
      return [textOutput('text_output', message.text)]
    case 'tokens':
      return [new Tensor('tokens', 'INT32', [message.tokens.length], bytesOf(message.tokens))]
    case 'vectors':
    default:
      return vectorOutputs(message, asked)
  }
}

function vectorOutputs({ values, length, inputTokens }: Vectors, { task, wants }: LanguageRequest): Tensor[] {
  const count = length === 0 ? 0 : values.length / length
  const numbers =
    task === 'rerank'
      ? new Tensor('scores', 'FP32', [count], bytesOf(values))
      : new Tensor('embedding', 'FP32', [count, length], bytesOf(values))
  return wants.inputTokens ? [numbers, countOutput('num_input_tokens', inputTokens)] : [numbers]
}

function textOutputs(
  { text, logprobs, end }: TextMessage,
  { wants, isEchoed, text: input }: LanguageRequest,
): Tensor[] {
  const outputs = [textOutput('text_output', isEchoed ? input + text : text)]
  if (wants.logprobs) outputs.push(textOutput('logprobs', JSON.stringify(logprobs ?? [])))
  if (end === null) return outputs
  if (wants.finishReason) outputs.push(textOutput('finish_reason', end.reason))
  if (wants.cumulativeLogprob) {
    const sum = new Float32Array([end.cumulativeLogprob])
    outputs.push(new Tensor('cumulative_logprob', 'FP32', [1], bytesOf(sum)))
  }
  if (wants.inputTokens) {
    outputs.push(countOutput('num_input_tokens', end.inputTokens), countOutput('cached_tokens', end.cachedTokens))
  }
  if (wants.outputTokens) outputs.push(countOutput('num_output_tokens', end.outputTokens))
  return outputs
}

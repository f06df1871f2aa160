import type { InferenceRequest } from '../../model/inference-request.ts'
import { Tensor } from '../../tensor/tensor.ts'
import type { RequestDetails, RequestMessage, TensorMessage } from './worker-protocol.ts'

const aligned = (length: number): number => Math.ceil(length / 8) * 8

/**
 * Packs a batch for a Worker. Every input is copied once, into one buffer for the whole batch, which is transferred.
 * The inputs themselves cannot be transferred: an input is a view on the body of a request, and others read the body
 * too.
 */
export function packRequests(
  requests: readonly InferenceRequest[],
  keyOf: (request: InferenceRequest) => number,
): { requests: RequestMessage[]; buffers: ArrayBuffer[] } {
  let size = 0
  for (const request of requests) for (const input of request.inputs) size += aligned(input.bytes.byteLength)
  const packed = Buffer.allocUnsafeSlow(size)
  let offset = 0
  const messages = requests.map((request): RequestMessage => {
    const inputs = request.inputs.map(({ name, dataType, shape, bytes }): TensorMessage => {
      const length = bytes.byteLength
      packed.set(bytes, offset)
      const message = { name, dataType, shape, buffer: 0, offset, length }
      offset += aligned(length)
      return message
    })
    const { id, batchSize } = request
    return { key: keyOf(request), id, batchSize, inputs, details: detailsOf(request) }
  })
  return { requests: messages, buffers: [packed.buffer] }
}

function detailsOf(request: InferenceRequest): RequestDetails | null {
  const { requestedOutputs, parameters, correlationId, isSequenceStart, isSequenceEnd } = request
  const { priority, timeoutUs, isCancelled } = request
  const traceContext = request.trace?.context ?? null
  const isPlain =
    requestedOutputs.length === 0 &&
    parameters.size === 0 &&
    correlationId === 0n &&
    priority === 0n &&
    timeoutUs === 0n &&
    !isSequenceStart &&
    !isSequenceEnd &&
    !isCancelled &&
    traceContext === null
  if (isPlain) return null
  return {
    requestedOutputs,
    parameters,
    correlationId,
    isSequenceStart,
    isSequenceEnd,
    priority,
    timeoutUs,
    isCancelled,
    traceContext,
  }
}

/** Tensors as views on the received buffers; no copies. */
export function unpackTensors(messages: readonly TensorMessage[], buffers: readonly ArrayBuffer[]): Tensor[] {
  return messages.map(({ name, dataType, shape, buffer, offset, length }) => {
    const memory = buffers[buffer]
    const bytes = memory === undefined ? new Uint8Array(0) : new Uint8Array(memory, offset, length)
    return new Tensor(name, dataType, shape, bytes)
  })
}

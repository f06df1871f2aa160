// Runs one model through onnxruntime-node. Its run() blocks the calling thread, so each model has a thread.

import { createRequire } from 'node:module'
import type * as ort from 'onnxruntime-node'
import { parentPort } from 'node:worker_threads'
import { messageOf } from '../../../base/server-error.ts'
import { encodeBytesElements, splitBytesElements } from '../../../tensor/bytes-elements.ts'
import { elementArray } from '../../../tensor/data-type.ts'
import { onnxRuntimePackage } from '../onnx-runtime-package.ts'
import type { SessionSettings } from '../session-settings.ts'
import { javaScriptTypes, type Answer, type Ask, type WireSpec, type WireTensor } from './javascript-messages.ts'

// onnxruntime-node 1.30 loses the bytes of a Float16Array; without that class in this thread it takes Uint16Array.
Reflect.deleteProperty(globalThis, 'Float16Array')

const { InferenceSession, Tensor } = createRequire(import.meta.url)(onnxRuntimePackage()) as typeof ort

const typeNames = new Map(
  Object.entries(javaScriptTypes).map(([name, dataType]) => [dataType, name as ort.Tensor.Type]),
)

const port = parentPort
if (port === null) throw new Error('javascript-thread.ts runs as a worker thread')
const answer = (message: Answer, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)

const decoder = new TextDecoder()
let session: ort.InferenceSession | null = null

port.on('message', (ask: Ask) => {
  if (ask.kind === 'load') void load(ask.path, ask.settings)
  else if (ask.kind === 'run') void run(ask)
  else void end()
})

async function load(path: string, settings: SessionSettings): Promise<void> {
  try {
    session = await InferenceSession.create(path, {
      executionProviders: ['cpu'],
      ...(settings.intraOpThreads > 0 ? { intraOpNumThreads: settings.intraOpThreads } : {}),
      ...(settings.interOpThreads > 0 ? { interOpNumThreads: settings.interOpThreads } : {}),
      executionMode: settings.isParallel ? 'parallel' : 'sequential',
      graphOptimizationLevel: settings.graphLevel,
      enableCpuMemArena: settings.hasMemoryArena,
      enableMemPattern: settings.hasMemoryPattern,
      logSeverityLevel: 4,
    })
    answer({
      kind: 'loaded',
      inputs: session.inputMetadata.map(wireSpec),
      outputs: session.outputMetadata.map(wireSpec),
    })
  } catch (reason) {
    answer({ kind: 'load-failed', message: messageOf(reason) })
  }
}

const wireSpec = (value: ort.InferenceSession.ValueMetadata): WireSpec =>
  value.isTensor
    ? { name: value.name, dataType: javaScriptTypes[value.type] ?? null, shape: value.shape }
    : { name: value.name, dataType: null, shape: [] }

async function run({ id, inputs, outputs }: Extract<Ask, { kind: 'run' }>): Promise<void> {
  try {
    if (session === null) throw new Error('the model is not loaded')
    const feeds: Record<string, ort.Tensor> = {}
    for (const input of inputs) feeds[input.name] = tensorOf(input)
    const started = performance.now()
    const results = await session.run(feeds, outputs)
    const elapsedNs = (performance.now() - started) * 1e6
    const made = outputs.map((name) => wireTensor(name, results[name] as ort.Tensor))
    answer(
      { kind: 'ran', id, outputs: made, elapsedNs },
      made.map((tensor) => tensor.bytes.buffer),
    )
  } catch (reason) {
    answer({ kind: 'run-failed', id, message: messageOf(reason) })
  }
}

async function end(): Promise<void> {
  await session?.release()
  port?.close()
}

function tensorOf({ dataType, shape, bytes }: WireTensor): ort.Tensor {
  if (dataType === 'BYTES') return new Tensor('string', textsOf(bytes), shape)
  const type = typeNames.get(dataType)
  if (dataType === 'BF16' || type === undefined) throw new Error(`type ${dataType} needs the C API of ONNX Runtime`)
  const data = new elementArray[dataType](bytes.buffer)
  return new Tensor(type as 'float32', data as Float32Array, shape)
}

function wireTensor(name: string, tensor: ort.Tensor): WireTensor {
  const dataType = javaScriptTypes[tensor.type]
  if (dataType === undefined) throw new Error(`output '${name}' has type ${tensor.type}, which cannot be returned`)
  if (dataType === 'BYTES')
    return { name, dataType, shape: tensor.dims, bytes: encodeBytesElements(tensor.data as string[]) }
  const { buffer, byteOffset, byteLength } = tensor.data as Uint8Array
  // The result is copied, because memory of onnxruntime-node may not be transferable.
  const bytes = new Uint8Array(byteLength)
  bytes.set(new Uint8Array(buffer, byteOffset, byteLength))
  return { name, dataType, shape: tensor.dims, bytes }
}

const textsOf = (bytes: Uint8Array): string[] =>
  splitBytesElements(bytes, () => new Error('a string tensor is cut off')).map((text) => decoder.decode(text))

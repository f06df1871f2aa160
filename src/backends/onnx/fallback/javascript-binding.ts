// onnxruntime-node's own JavaScript API, one worker thread per model, for platforms where the C API cannot be called.
// This binding costs a hop and two copies per run, has one run per model at a time, cannot end a run, knows no BF16 and
// reads strings as UTF-8. All else behaves as with the C API, and the same tests run on both.

import { Worker } from 'node:worker_threads'
import { messageOf, ServerError } from '../../../base/server-error.ts'
import { readOnnxFile } from '../../../onnx-file/onnx-file.ts'
import { elementBytes } from '../../../tensor/data-type.ts'
import { elementCount, shapeText } from '../../../tensor/shape.ts'
import type {
  OnnxBinding,
  OnnxRunner,
  OnnxSession,
  OnnxTensorSpec,
  RunInput,
  RunRequest,
  RunResult,
} from '../onnx-session.ts'
import type { SessionSettings } from '../session-settings.ts'
import type { Answer, Ask, WireSpec, WireTensor } from './javascript-messages.ts'

type Finished = (result: RunResult) => void

export class JavaScriptBinding implements OnnxBinding {
  readonly name = 'javascript'

  providers(): Promise<readonly string[]> {
    return Promise.resolve([])
  }

  gpuObstacle(): Promise<string> {
    return Promise.resolve('ONNX models run through onnxruntime-node here, which is for the CPU only')
  }

  async createSession(modelPath: string, settings: SessionSettings): Promise<OnnxSession> {
    if (settings.customOpLibraries.length > 0) {
      throw new ServerError(
        'UNSUPPORTED',
        'model_operations needs the C API of ONNX Runtime, which is not available here',
      )
    }
    const thread = new ModelThread()
    try {
      const { inputs, outputs } = await thread.load(modelPath, settings)
      // onnxruntime-node gives [] both for a scalar and for "no shape given"; the model file tells which it is.
      const header = await readOnnxFile(modelPath).catch(() => null)
      const shapeless = new Set(
        [...(header?.inputs ?? []), ...(header?.outputs ?? [])]
          .filter((each) => each.shape === null)
          .map((each) => each.name),
      )
      const specOf = (spec: WireSpec): OnnxTensorSpec => tensorSpec(spec, shapeless.has(spec.name))
      return new JavaScriptSession(thread, inputs.map(specOf), outputs.map(specOf))
    } catch (reason) {
      await thread.close()
      throw reason
    }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

const tensorSpec = ({ name, dataType, shape }: WireSpec, hasNoShape: boolean): OnnxTensorSpec => ({
  name,
  dataType,
  typeText: dataType ?? 'not a tensor',
  shape: dataType === null || hasNoShape ? null : shape.map((dim) => (typeof dim === 'number' ? dim : -1)),
  symbols: shape.map((dim) => (typeof dim === 'string' ? dim : '')),
})

/** A worker thread with one model in it. Runs wait in its message queue, so they end in order. */
class ModelThread {
  readonly #worker: Worker
  readonly #runs = new Map<number, (answer: Answer | null) => void>()
  #loading: ((answer: Answer | null) => void) | null = null
  #nextId = 1
  #isGone = false
  #lossReason = 'the thread that loads the model was lost'

  constructor() {
    const file = import.meta.url.endsWith('.ts') ? './javascript-thread.ts' : './javascript-thread.js'
    this.#worker = new Worker(new URL(file, import.meta.url), { name: 'onnx-javascript' })
    this.#worker.on('message', (answer: Answer) => this.#onAnswer(answer))
    // `exit` follows. The error comes, for one, on a platform that onnxruntime-node does not support.
    this.#worker.on('error', (reason) => (this.#lossReason = messageOf(reason)))
    this.#worker.on('exit', () => this.#onExit())
    this.#worker.unref()
  }

  async load(path: string, settings: SessionSettings): Promise<Extract<Answer, { kind: 'loaded' }>> {
    const answer = await new Promise<Answer | null>((resolve) => {
      this.#loading = resolve
      this.#send({ kind: 'load', path, settings }, [])
    })
    if (answer?.kind === 'loaded') return answer
    throw new Error(answer?.kind === 'load-failed' ? answer.message : this.#lossReason)
  }

  run(inputs: readonly WireTensor[], outputs: readonly string[], done: (answer: Answer | null) => void): void {
    if (this.#isGone) {
      done(null)
      return
    }
    const id = this.#nextId++
    this.#runs.set(id, done)
    const transfer = inputs.map((input) => input.bytes.buffer)
    this.#send({ kind: 'run', id, inputs, outputs }, transfer)
  }

  async close(): Promise<void> {
    if (this.#isGone) return
    const exited = new Promise<void>((resolve) => void this.#worker.once('exit', () => resolve()))
    this.#send({ kind: 'end' }, [])
    await exited
  }

  #send(ask: Ask, transfer: readonly ArrayBuffer[]): void {
    this.#worker.ref()
    this.#worker.postMessage(ask, transfer)
  }

  #onAnswer(answer: Answer): void {
    if (answer.kind === 'loaded' || answer.kind === 'load-failed') {
      this.#loading?.(answer)
      this.#loading = null
    } else {
      const done = this.#runs.get(answer.id)
      this.#runs.delete(answer.id)
      done?.(answer)
    }
    if (this.#runs.size === 0) this.#worker.unref()
  }

  #onExit(): void {
    this.#isGone = true
    this.#loading?.(null)
    const waiting = [...this.#runs.values()]
    this.#runs.clear()
    for (const done of waiting) done(null)
  }
}

class JavaScriptSession implements OnnxSession {
  readonly canRunInline = false
  readonly inputs: readonly OnnxTensorSpec[]
  readonly overridable: readonly OnnxTensorSpec[] = []
  readonly outputs: readonly OnnxTensorSpec[]
  readonly #thread: ModelThread

  constructor(thread: ModelThread, inputs: readonly OnnxTensorSpec[], outputs: readonly OnnxTensorSpec[]) {
    this.#thread = thread
    this.inputs = inputs
    this.outputs = outputs
  }

  createRunner(): OnnxRunner {
    return new JavaScriptRunner(this.#thread, this)
  }

  close(): Promise<void> {
    return this.#thread.close()
  }
}

class JavaScriptRunner implements OnnxRunner {
  readonly #thread: ModelThread
  readonly #session: OnnxSession
  #terminate: (() => void) | null = null

  constructor(thread: ModelThread, session: OnnxSession) {
    this.#thread = thread
    this.#session = session
  }

  run(request: RunRequest, finished: Finished): void {
    let inputs: WireTensor[]
    try {
      inputs = this.#wireInputs(request)
    } catch (reason) {
      finished({ error: ServerError.from(reason), isTerminated: false })
      return
    }
    const names = request.outputs.map((index) => this.#session.outputs[index]?.name ?? '')
    let isOver = false
    const end = (result: RunResult): void => {
      if (isOver) return
      isOver = true
      this.#terminate = null
      finished(result)
    }
    // A run cannot be ended here: its client gets an answer now, and the result is dropped later.
    this.#terminate = () => {
      const error = ServerError.withoutStack('INTERNAL', 'the run was given up')
      end({ error, isTerminated: true })
    }
    this.#thread.run(inputs, names, (answer) => end(resultOf(answer)))
  }

  terminate(): void {
    this.#terminate?.()
  }

  close(): void {
    this.#terminate = null
  }

  #wireInputs({ inputs }: RunRequest): WireTensor[] {
    const tensors: WireTensor[] = []
    for (const [index, input] of inputs.entries()) {
      const spec = this.#session.inputs[index]
      if (input === null || spec === undefined || spec.dataType === null) continue
      // One element on the wire may be a scalar for the model.
      const isScalar = spec.shape?.length === 0 && input.shape.length === 1 && input.shape[0] === 1
      const shape = isScalar ? spec.shape : input.shape
      checkInput(spec, { ...input, shape })
      // The request's bytes are a view on a larger buffer, which must not be transferred, so they are copied.
      tensors.push({ name: spec.name, dataType: spec.dataType, shape, bytes: new Uint8Array(input.bytes) })
    }
    return tensors
  }
}

function checkInput({ name, dataType, shape }: OnnxTensorSpec, input: RunInput): void {
  const fits =
    shape === null ||
    (shape.length === input.shape.length && shape.every((size, i) => size < 0 || size === input.shape[i]))
  if (!fits) {
    const text = `input '${name}': the model expects shape ${shapeText(shape ?? [])}, got ${shapeText(input.shape)}`
    throw ServerError.withoutStack('INVALID_ARG', text)
  }
  if (dataType === null || dataType === 'BYTES') return
  const expected = elementCount(input.shape) * elementBytes[dataType]
  if (input.bytes.byteLength !== expected) {
    const text = `input '${name}' must have ${expected} bytes, got ${input.bytes.byteLength}`
    throw ServerError.withoutStack('INVALID_ARG', text)
  }
}

function resultOf(answer: Answer | null): RunResult {
  if (answer?.kind === 'ran') {
    return { error: null, outputs: answer.outputs, elapsedNs: answer.elapsedNs, release: null }
  }
  const message = answer?.kind === 'run-failed' ? answer.message : 'the thread that ran the model was lost'
  const error = ServerError.withoutStack('INTERNAL', `onnx runtime error: ${message}`)
  return { error, isTerminated: false }
}

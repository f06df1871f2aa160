// model_warmup: requests that run on every Instance before the version is READY, so that the first real requests find
// everything allocated. Warm-up requests go past the scheduler, and no statistics count them.

import { randomFillSync } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../base/log.ts'
import { waitTurn } from '../../base/run-in-slices.ts'
import { realPathInside } from '../../base/safe-path.ts'
import { ServerError } from '../../base/server-error.ts'
import type { Instance } from '../../model/backend.ts'
import { Batch } from '../../model/batch.ts'
import { idPrefix } from '../../model/id-prefix.ts'
import { InferenceRequest } from '../../model/inference-request.ts'
import type { ModelConfig, ModelWarmup, ModelWarmupInput } from '../../config/model-config.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import { reshapeInputs } from '../../model/reshape.ts'
import { validateRequest } from '../../model/validate-request.ts'
import { SequenceControls } from '../../scheduling/sequence-controls.ts'
import { SequenceStates } from '../../scheduling/sequence-states.ts'
import { dataTypeOfConfig, elementBytes, type DataType } from '../../tensor/data-type.ts'
import { elementCount } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'

type WarmUpSource = {
  readonly config: ModelConfig
  readonly signature: ModelSignature
  readonly modelDirectory: string
  /** The content of each `data_file` of a state, by the state's input name. */
  readonly initialStates?: ReadonlyMap<string, Uint8Array>
}

/** What the core puts before errors of a request without an id, and so of every sample. */
const noId = idPrefix('')

type Sample = {
  readonly name: string
  readonly inputs: readonly Tensor[]
  readonly rows: number
  readonly runs: number
}

/** Resolves when every Instance has run every sample; rejects with Triton's text at the first that fails. */
export async function warmUp(log: Log, source: WarmUpSource, instances: readonly Instance[]): Promise<void> {
  const samples: Sample[] = []
  for (const setting of source.config.modelWarmup) {
    if (setting.batchSize === 0) {
      log.info(`skipping batch 0 warmup sample '${setting.name}'`, { model: source.config.name })
      continue
    }
    const sample = await readSample(setting, source)
    samples.push(sample)
    warnOfUnknown(log, sample, source)
  }
  await Promise.all(instances.map((instance) => warmUpInstance(log, instance, samples, source)))
}

function warnOfUnknown(log: Log, { name, inputs }: Sample, source: WarmUpSource): void {
  const known = new Set([...source.signature.inputByName.keys(), ...sequenceInputs(source).map((own) => own.name)])
  for (const input of inputs) {
    if (known.has(input.name)) continue
    const text = `warmup sample '${name}' has the input '${input.name}', which the model does not have; it is left out`
    log.warning(text, { model: source.config.name })
  }
}

async function warmUpInstance(
  log: Log,
  instance: Instance,
  samples: readonly Sample[],
  source: WarmUpSource,
): Promise<void> {
  for (const sample of samples) {
    for (let run = 1; run <= sample.runs; run++) {
      const which = `model '${source.config.name}' instance ${instance.name}`
      log.verbose(`${which} is running warmup sample '${sample.name}' for iteration ${run}`)
      const failures = await runSample(instance, sample, source)
      // An instance that answers at once would keep the event loop from everybody else until all runs are done.
      await nextTurn()
      if (failures.length > 0) {
        const reasons = failures.map((error) => error.message)
        throw sampleFailed(sample.name, reasons)
      }
    }
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => waitTurn(resolve))

/** As in Triton the code of what the model said is gone: the load fails because its configuration asks for the sample. */
const sampleFailed = (name: string, reasons: readonly string[]): ServerError =>
  new ServerError(
    'INVALID_ARG',
    `failed to run warmup sample '${name}': ${reasons.map((reason) => `${reason}; `).join('')}`,
  )

async function readSample(setting: ModelWarmup, source: WarmUpSource): Promise<Sample> {
  const inputs: Tensor[] = []
  for (const [name, input] of setting.inputs) inputs.push(await readInput(name, input, source))
  // A model without a batch dimension has one request in an execution, whatever the size says.
  const rows = source.signature.isBatching ? setting.batchSize : 1
  const { name, maxBatchSize } = source.config
  if (source.signature.isBatching && rows > maxBatchSize) {
    const reason = `batch size ${rows} for '${name}', max allowed is ${maxBatchSize}`
    throw sampleFailed(setting.name, [reason])
  }
  const sample = { name: setting.name, inputs, rows, runs: Math.max(1, setting.count) }
  // A sample that is wrong is refused before any Instance runs.
  makeRequest(sample, source, () => undefined)
  return sample
}

async function readInput(name: string, input: ModelWarmupInput, source: WarmUpSource): Promise<Tensor> {
  const { signature } = source
  if (input.inputDataFile === null && input.zeroData === null && input.randomData === null) {
    throw new ServerError('INVALID_ARG', `${noId}warmup setting expects input '${name}' to have input_data_type set`)
  }
  const dataType = dataTypeOfConfig(input.dataType)
  if (dataType === null) {
    const expected = signature.inputByName.get(name)?.dataType ?? 'a data type'
    throw new ServerError(
      'INVALID_ARG',
      `${noId}inference input '${name}' data-type is '<invalid>', but model '${signature.modelName}' expects '${expected}'`,
    )
  }
  const count = elementCount(input.dims)
  if (count < 0) {
    throw new ServerError(
      'INVALID_ARG',
      `warmup setting expects all variable-size dimensions are specified for input '${name}'`,
    )
  }
  const byteSize = count * (dataType === 'BYTES' ? 4 : elementBytes[dataType])
  const shape = signature.isBatching ? [1, ...input.dims] : [...input.dims]
  return new Tensor(name, dataType, shape, await readBytes(name, input, dataType, byteSize, source))
}

/** The most bytes that one warm-up tensor may have, so that a configuration cannot fill the memory. */
const maxTensorBytes = 2 ** 31
/** Strings are looked at one by one when they are checked. */
const mostStrings = 1_000_000

async function readBytes(
  name: string,
  input: ModelWarmupInput,
  dataType: DataType,
  byteSize: number,
  source: WarmUpSource,
): Promise<Uint8Array> {
  if (input.inputDataFile !== null) return readDataFile(input.inputDataFile, dataType, byteSize, source)
  if (byteSize > maxTensorBytes) {
    throw new ServerError('INVALID_ARG', `warmup input '${name}' has ${byteSize} bytes, more than ${maxTensorBytes}`)
  }
  if (dataType === 'BYTES' && byteSize > mostStrings * 4) {
    throw new ServerError('INVALID_ARG', `warmup input '${name}' has ${byteSize / 4} strings, more than ${mostStrings}`)
  }
  const bytes = new Uint8Array(byteSize)
  if (input.zeroData !== null) return bytes
  // Random strings are empty ones, as in Triton; of a BOOL only two values have a meaning.
  if (dataType === 'BYTES') return bytes
  for (let at = 0; at < byteSize; at += fillBytes) {
    const end = Math.min(at + fillBytes, byteSize)
    randomFillSync(bytes, at, end - at)
    if (dataType === 'BOOL') for (let i = at; i < end; i++) bytes[i] = (bytes[i] as number) & 1
    if (end < byteSize) await nextTurn()
  }
  return bytes
}

/** What is filled in one turn of the event loop. */
const fillBytes = 1024 * 1024

async function readDataFile(
  file: string,
  dataType: DataType,
  byteSize: number,
  { modelDirectory }: WarmUpSource,
): Promise<Uint8Array> {
  const path = join('warmup', file)
  const real = await realPathInside(modelDirectory, path)
  if (real === null) {
    const what = `failed to open text file for read ${join(modelDirectory, path)}: No such file or directory`
    throw new ServerError('INTERNAL', what)
  }
  const bytes = await readFile(real)
  if (dataType === 'BYTES') return bytes
  if (bytes.byteLength < byteSize) {
    throw new ServerError(
      'INVALID_ARG',
      `${noId}warmup setting expects ${byteSize} bytes, but the data provided from ${file} only has ${bytes.byteLength} bytes`,
    )
  }
  return bytes.subarray(0, byteSize)
}

function makeRequest(sample: Sample, source: WarmUpSource, sink: InferenceRequest['respond']): InferenceRequest {
  const { config, signature } = source
  const own = sequenceInputs(source)
  const ownNames = new Set(own.map(({ name }) => name))
  const request = new InferenceRequest({
    modelName: config.name,
    // Triton's check passes over inputs that the model does not have, too.
    inputs: sample.inputs.filter(({ name }) => !ownNames.has(name) && signature.inputByName.has(name)),
    sink,
  })
  request.isWarmUp = true
  validateRequest(request, signature)
  reshapeInputs(request, signature)
  const given = new Map(sample.inputs.map((input) => [input.name, input]))
  if (own.length > 0) request.inputs = [...request.inputs, ...own.map((input) => given.get(input.name) ?? input)]
  return request
}

/**
 * Controls and states of sequences are no inputs to clients, yet a sample may set them. Those that it leaves out are those
 * of a request that both starts and ends a sequence.
 */
function sequenceInputs({ config, initialStates = new Map() }: WarmUpSource): Tensor[] {
  if (config.sequenceBatching === null) return []
  const inputs: Tensor[] = []
  const request = new InferenceRequest({
    modelName: config.name,
    inputs,
    correlationId: 1n,
    isSequenceStart: true,
    isSequenceEnd: true,
    sink: (response) => response.release(),
  })
  new SequenceControls(config).append(inputs, request)
  new SequenceStates(config, initialStates).append(inputs, null)
  return inputs
}

/** One execution: as many requests of one row as the sample's batch size says, as Triton does it. Resolves with what went wrong. */
function runSample(instance: Instance, sample: Sample, source: WarmUpSource): Promise<ServerError[]> {
  return new Promise((resolve) => {
    const failures: ServerError[] = []
    // A decoupled model may answer after it has executed.
    let open = sample.rows + 1
    const endOne = (): void => void (--open === 0 && resolve(failures))
    const requests = Array.from({ length: sample.rows }, () =>
      makeRequest(sample, source, (response) => {
        if (response.error !== null) failures.push(response.error)
        response.release()
        if (response.isFinal) endOne()
      }),
    )
    // An iterative model that reschedules the request has run, and warm-up needs no more.
    if (source.config.sequenceBatching?.iterativeSequence === true) {
      for (const request of requests) request.lend({ takeBack: endOne })
    }
    instance.execute(new Batch(requests, sample.rows, endOne))
  })
}

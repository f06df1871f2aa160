// Predict: tensors in, tensors out.

import type { ModelVersion } from '../../model/model-version.ts'
import { invalid } from '../../protocol/tfserving/predict-request.ts'
import { predictAnswer } from '../../protocol/tfserving/serving-answer.ts'
import { readPredictRequest, type WirePredict } from '../../protocol/tfserving/serving-request.ts'
import { isKnownSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import { TensorProtoReader } from '../../protocol/tfserving/tensor-proto-reader.ts'
import { withOnes } from '../../tensor/shape.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { FailedPrecondition, type TfCall, type TfGrpcParts } from './grpc-exchange.ts'

type Signature = ModelVersion['signature']

/** Throws INVALID_ARG. HOT: once per inference. */
export function predictCall({ options }: TfGrpcParts, message: Buffer): TfCall {
  const { spec, inputs, outputFilter } = readPredictRequest(message, options.requestLimits)
  return {
    spec,
    outputs: ({ signature }) => {
      if (!isKnownSignature(spec.signature)) {
        throw new FailedPrecondition(`Serving signature key "${spec.signature.slice(0, 200)}" not found.`)
      }
      requireInputs(inputs, signature)
      if (outputFilter.length === 0) return null
      requireOutputs(outputFilter, signature)
      return outputFilter
    },
    inputs: ({ signature }, reserve) => {
      const limits = { maxRank: options.requestLimits.maxRank, maxBytes: options.maxMessageBytes, reserve }
      const readers: TensorProtoReader[] = []
      for (const { name } of signature.inputs) {
        const place = inputs.get(name)
        if (place !== undefined) readers.push(new TensorProtoReader(name, message, place.start, place.end, limits))
      }
      return inputsAtOnce(readers, signature) ?? inputsInSteps(readers, signature)
    },
    answer: ({ outputs }, { version }) =>
      predictAnswer({ outputs, spec, version, asContent: options.answersTensorContent }),
  }
}

/** Null where an input is large, or its elements have to be copied. */
function inputsAtOnce(readers: readonly TensorProtoReader[], signature: Signature): Tensor[] | null {
  const tensors: Tensor[] = []
  for (const reader of readers) {
    const tensor = reader.readAtOnce()
    if (tensor === null) return null
    tensors.push(inFullShape(tensor, signature))
  }
  return tensors
}

function* inputsInSteps(readers: readonly TensorProtoReader[], signature: Signature): Generator<void, Tensor[]> {
  const tensors: Tensor[] = []
  for (const reader of readers) tensors.push(inFullShape(yield* reader.readInSteps(), signature))
  return tensors
}

function inFullShape(tensor: Tensor, { inputByName, isBatching }: Signature): Tensor {
  const { name, dataType, shape, bytes } = tensor
  const dims = inputByName.get(name)?.dims ?? []
  if (shape.length >= dims.length + (isBatching ? 1 : 0)) return tensor
  const full = withOnes(shape, isBatching ? [-1, ...dims] : dims)
  return full === shape ? tensor : new Tensor(name, dataType, full, bytes)
}

function requireInputs(inputs: WirePredict['inputs'], signature: Signature): void {
  let found = 0
  for (const { name } of signature.inputs) if (inputs.has(name)) found++
  const isWhole = found === inputs.size && found === signature.inputs.length
  if (!isWhole) refuseInputs(inputs, signature)
}

const asSet = (names: Iterable<string>): string => `{${[...names].sort().join(',')}}`

/** TensorFlow Serving counts the inputs before it looks for each. Returns where only optional inputs are left out. */
function refuseInputs(inputs: WirePredict['inputs'], signature: Signature): void {
  const names = signature.inputs.map(({ name }) => name)
  const required = signature.inputs.filter(({ isOptional }) => !isOptional).map(({ name }) => name)
  const given = [...inputs.keys()]
  const extra = given.filter((name) => !names.includes(name))
  const missing = required.filter((name) => !inputs.has(name))
  if (inputs.size > names.length || inputs.size < required.length) {
    throw invalid(
      `input size does not match signature: ${inputs.size}!=${names.length} len(${asSet(given)}) != len(${asSet(names)}). ` +
        `Sent extra: ${asSet(extra)}. Missing but required: ${asSet(missing)}.`,
    )
  }
  const [absent = extra[0]] = missing
  if (absent === undefined) return
  throw invalid(
    `input tensor alias not found in signature: ${absent}. Inputs expected to be in the set ${asSet(names)}.`,
  )
}

function requireOutputs(filter: readonly string[], { outputs, outputByName }: Signature): void {
  const seen = new Set<string>()
  for (const name of filter) {
    if (!outputByName.has(name)) {
      const names = asSet(outputs.map((output) => output.name))
      throw invalid(`output tensor alias not found in signature: ${name} Outputs expected to be in the set ${names}.`)
    }
    if (seen.has(name)) throw invalid(`duplicate output tensor alias: ${name}`)
    seen.add(name)
  }
}

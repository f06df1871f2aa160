// Predict: tensors in, tensors out.

import type { ModelVersion } from '../../model/model-version.ts'
import { inGivenRank, inModelShapes, type InputRanks } from '../../protocol/tfserving/input-ranks.ts'
import { invalid } from '../../protocol/tfserving/predict-request.ts'
import { predictAnswer } from '../../protocol/tfserving/serving-answer.ts'
import { readPredictRequest, type WirePredict } from '../../protocol/tfserving/serving-request.ts'
import { isKnownSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import { TensorProtoReader } from '../../protocol/tfserving/tensor-proto-reader.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { FailedPrecondition, type TfCall, type TfGrpcParts } from './grpc-exchange.ts'

type Signature = ModelVersion['signature']

/** Throws INVALID_ARG. HOT: once per inference. */
export function predictCall({ options }: TfGrpcParts, message: Buffer): TfCall {
  const { spec, inputs, outputFilter } = readPredictRequest(message, options.requestLimits)
  let ranks: InputRanks | null = null
  const shaped = (tensors: Tensor[], signature: Signature): Tensor[] => {
    const found = inModelShapes(tensors, signature)
    ranks = found.ranks
    return found.inputs
  }
  return {
    spec,
    check: ({ signature }) => {
      if (!isKnownSignature(spec.signature, signature)) {
        throw new FailedPrecondition(`Serving signature key "${spec.signature}" not found.`)
      }
      requireInputs(inputs, signature)
    },
    inputs: ({ signature }, reserve) => {
      const limits = { maxRank: options.requestLimits.maxRank, maxBytes: options.maxMessageBytes, reserve }
      const readers: TensorProtoReader[] = []
      for (const { name } of signature.inputs) {
        const place = inputs.get(name)
        if (place !== undefined) readers.push(new TensorProtoReader(name, message, place.start, place.end, limits))
      }
      const tensors = readAtOnce(readers)
      return tensors === null ? readInSteps(readers, (read) => shaped(read, signature)) : shaped(tensors, signature)
    },
    outputs: ({ signature }) => {
      if (outputFilter.length === 0) return null
      requireOutputs(outputFilter, signature)
      return outputFilter
    },
    answer: ({ outputs }, { version }) =>
      predictAnswer({
        outputs: inGivenRank(outputs, ranks),
        spec,
        version,
        asContent: options.answersTensorContent,
      }),
  }
}

/** Null where an input is large, or its elements have to be copied. */
function readAtOnce(readers: readonly TensorProtoReader[]): Tensor[] | null {
  const tensors: Tensor[] = []
  for (const reader of readers) {
    const tensor = reader.readAtOnce()
    if (tensor === null) return null
    tensors.push(tensor)
  }
  return tensors
}

function* readInSteps(
  readers: readonly TensorProtoReader[],
  shaped: (tensors: Tensor[]) => Tensor[],
): Generator<void, Tensor[]> {
  const tensors: Tensor[] = []
  for (const reader of readers) tensors.push(yield* reader.readInSteps())
  return shaped(tensors)
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

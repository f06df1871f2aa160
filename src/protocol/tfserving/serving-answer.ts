// The answers of TensorFlow Serving's gRPC services in their wire form, written in steps.

import type { ModelSignature } from '../../config/model-signature.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { ProtobufWriter, type MessageParts } from '../../protobuf/protobuf-writer.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { answerBytes } from '../grpc/infer-response-writer.ts'
import { classesOf, regressionsOf, writeClasses, writeRegressions } from './example-results.ts'
import type { WireExamples, WireModelSpec } from './serving-request.ts'
import { areBytesOfTensor, elementsToWrite, writeTensorEntry } from './tensor-proto-writer.ts'
import { defaultSignature } from './tensorflow-type.ts'

export const classifyMethod = 'tensorflow/serving/classify'
export const regressMethod = 'tensorflow/serving/regress'

type PredictAnswer = {
  readonly outputs: readonly Tensor[]
  readonly spec: WireModelSpec
  readonly version: string
  readonly asContent: boolean
}

/** PredictResponse: outputs 1, model_spec 2. In steps where elements have to be encoded. HOT: once per inference. */
export function predictAnswer(answer: PredictAnswer): MessageParts | Iterator<void, MessageParts> {
  const isPlain = answer.outputs.every((output) => areBytesOfTensor(output, answer.asContent))
  return isPlain ? writePredict(answer, null) : predictInSteps(answer)
}

function* predictInSteps(answer: PredictAnswer): Generator<void, MessageParts> {
  const elements: Uint8Array[] = []
  for (const output of answer.outputs) elements.push(yield* elementsToWrite(output, answer.asContent))
  return writePredict(answer, elements)
}

/** `elements`: those of each output as the message has them; null: the bytes of the tensors. */
function writePredict(
  { outputs, spec, version, asContent }: PredictAnswer,
  elements: readonly Uint8Array[] | null,
): MessageParts {
  const writer = new ProtobufWriter(answerBytes(outputs))
  for (let i = 0; i < outputs.length; i++) {
    const output = outputs[i] as Tensor
    writeTensorEntry(writer, 1, output, elements?.[i] ?? output.bytes, asContent)
  }
  writeSpec(writer, 2, spec, version)
  return writer.parts()
}

/**
 * ClassificationResponse and RegressionResponse: result 1, model_spec 2. MultiInferenceResponse: results 1 (model_spec 1,
 * classification_result 2, regression_result 3).
 */
export function* exampleAnswer(
  response: InferenceResponse,
  { tasks, examples }: WireExamples,
  { version, signature }: { readonly version: string; readonly signature: ModelSignature },
  isMulti: boolean,
): Generator<void, MessageParts> {
  const writer = new ProtobufWriter()
  for (const { spec, method } of tasks) {
    const start = isMulti ? writer.beginNested(1) : 0
    if (isMulti) writeSpec(writer, 1, spec, version)
    if (method === classifyMethod) {
      yield* writeClasses(writer, isMulti ? 2 : 1, classesOf(response, signature, examples.length))
    } else writeRegressions(writer, isMulti ? 3 : 1, regressionsOf(response, examples.length))
    if (isMulti) writer.endNested(start)
    else writeSpec(writer, 2, spec, version)
  }
  return writer.parts()
}

/** ModelSpec: name 1, version 2 (value 1), signature_name 3. */
function writeSpec(writer: ProtobufWriter, field: number, spec: WireModelSpec, version: string): void {
  const start = writer.beginNested(field)
  writer.textField(1, spec.name)
  const inner = writer.beginNested(2)
  writer.integerField(1, Number.isSafeInteger(Number(version)) ? Number(version) : BigInt(version))
  writer.endNested(inner)
  writer.textField(3, spec.signature === '' ? defaultSignature : spec.signature)
  writer.endNested(start)
}

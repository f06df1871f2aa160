// Outputs → classes with scores, or values of a regression, one for each example. A TensorFlow model calls its outputs `classes`
// and `scores`, or `outputs`. Of every other model the only output counts, and its labels are the names of classes.

import type { ModelSignature } from '../../config/model-signature.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { ProtobufWriter } from '../../protobuf/protobuf-writer.ts'
import { elementsOf } from '../../tensor/data-type.ts'
import { shapeText } from '../../tensor/shape.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { bytesElementsOf } from '../../tensor/typed-values.ts'
import { floatText } from '../decimal-text.ts'
import { textAnswer, type EncodedInferResponse, type PrintedOutputs } from '../infer-response-writer.ts'
import { JsonTextWriter } from '../json-text-writer.ts'
import { invalid, type ParsedTfBody } from './predict-request.ts'
import { writeTfPredict } from './predict-response.ts'
import { tensorflowEnumName } from './tensorflow-type.ts'

/** The most classes of all examples together, as where outputs are classified over v2. */
const mostClasses = 1_000_000

/** Classes that are written in one step: about a millisecond. */
const stepClasses = 8 * 1024

type Classes = {
  readonly rows: number
  readonly classes: number
  labelAt(row: number, index: number): Uint8Array | string
  scoreAt(row: number, index: number): number
}

/** Throws in TensorFlow Serving's words where the outputs are none of a classifier. */
export function classesOf({ outputs }: InferenceResponse, signature: ModelSignature, rows: number): Classes {
  const labels = outputs.find(({ name }) => name === 'classes') ?? null
  const named = outputs.find(({ name }) => name === 'scores') ?? null
  const floats = outputs.filter(({ dataType }) => dataType === 'FP32')
  const scores = named ?? (labels === null && floats.length === 1 ? (floats[0] as Tensor) : null)
  if (labels === null && scores === null) {
    throw invalid(
      'Expected classification signature outputs to contain at least one of "classes" or "scores". ' +
        `Signature was: ${outputs.map(({ name, dataType, shape }) => `${name} ${dataType} ${shapeText(shape)}`).join(', ')}`,
    )
  }
  if (labels !== null) requireMatrix(labels, 'classes', 'BYTES', rows)
  if (scores !== null) requireMatrix(scores, 'scores', 'FP32', rows)
  const [labelled, scored] = [labels?.shape[1], scores?.shape[1]]
  if (labelled !== undefined && scored !== undefined && labelled !== scored) {
    throw invalid(`Tensors class and score should match in dim_size(1). Got ${labelled} vs. ${scored}`)
  }
  const classes = labelled ?? scored ?? 0
  if (rows * classes > mostClasses)
    throw invalid(`the answer has ${rows * classes} classes, at most ${mostClasses} are listed`)
  const names = labels === null ? null : bytesElementsOf(labels)
  const listed = signature.outputByName.get(scores?.name ?? '')?.labels ?? []
  const values = scores === null ? null : elementsOf('FP32', scores.bytes)
  return {
    rows,
    classes,
    labelAt: (row, index) => names?.[row * classes + index] ?? listed[index] ?? '',
    scoreAt: (row, index) => values?.[row * classes + index] ?? 0,
  }
}

export function regressionsOf({ outputs }: InferenceResponse, rows: number): Float32Array {
  const output = outputs.find(({ name }) => name === 'outputs') ?? (outputs.length === 1 ? outputs[0] : undefined)
  if (output === undefined) throw invalid('Expected one output Tensor.')
  const { shape, dataType } = output
  if (!(shape.length === 1 || (shape.length === 2 && shape[1] === 1))) {
    throw invalid(
      `Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got ${shapeText(shape)}`,
    )
  }
  if (shape[0] !== rows) throw invalid(`Input batch size did not match output batch size: ${rows} vs. ${shape[0]}`)
  if (dataType !== 'FP32') throw invalid(`Expected output Tensor of DT_FLOAT.  Got: ${tensorflowEnumName(dataType)}`)
  return elementsOf('FP32', output.bytes)
}

function requireMatrix({ shape, dataType }: Tensor, what: string, expected: 'BYTES' | 'FP32', rows: number): void {
  if (shape.length !== 2) throw invalid(`Expected Tensor shape: [batch_size num_classes] but got ${shapeText(shape)}`)
  if (dataType !== expected) {
    const [wanted, got] = [tensorflowEnumName(expected), tensorflowEnumName(dataType)]
    throw invalid(`Expected ${what} Tensor of ${wanted}. Got: ${got}`)
  }
  if (shape[0] !== rows) throw invalid(`Expected ${what} output batch size of ${rows}. Got: ${shape[0]}`)
}

/** `{"results": [[["label", 0.9], …], …]}` */
function classesJson(classes: Classes): Buffer {
  const writer = new JsonTextWriter()
  writer.raw('{\n    "results": [')
  for (let row = 0; row < classes.rows; row++) {
    writer.raw(row > 0 ? ', [' : '[')
    for (let i = 0; i < classes.classes; i++) {
      writer.raw(i > 0 ? ', [' : '[')
      const label = Buffer.from(classes.labelAt(row, i) as string)
      writer.stringBytes(label, 0, label.length)
      writer.raw(`, ${floatText(classes.scoreAt(row, i))}]`)
    }
    writer.raw(']')
  }
  writer.raw('\n    ]\n}')
  return writer.finish()
}

const regressionsJson = (values: Float32Array): Buffer =>
  Buffer.from(`{\n    "results": [${Array.from(values, floatText).join(', ')}]\n}`)

export type TfMethod = 'predict' | 'classify' | 'regress'

/** What an answer is written from, beside the outputs. */
type TfAnswerContext = PrintedOutputs & Omit<ParsedTfBody, 'inputs'> & { readonly method: TfMethod }

/** The answer of the REST API. HOT: once per inference. */
export function writeTfAnswer(response: InferenceResponse, context: TfAnswerContext): EncodedInferResponse {
  const { method, rows, signature } = context
  if (method === 'predict') return textAnswer(writeTfPredict(response, context))
  if (method === 'regress') return textAnswer(regressionsJson(regressionsOf(response, rows)))
  return textAnswer(classesJson(classesOf(response, signature, rows)))
}

/** ClassificationResult: classifications 1 → classes 1 → label 1, score 2. */
export function* writeClasses(writer: ProtobufWriter, field: number, classes: Classes): Generator<void, void> {
  const all = writer.beginNested(field)
  let written = 0
  for (let row = 0; row < classes.rows; row++) {
    const start = writer.beginNested(1)
    for (let i = 0; i < classes.classes; i++) {
      const one = writer.beginNested(1)
      const label = classes.labelAt(row, i)
      if (label.length > 0) {
        writer.tag(1, 2)
        writer.raw(Buffer.from(label as string))
      }
      writer.tag(2, 5)
      writer.float(classes.scoreAt(row, i))
      writer.endNested(one)
      if (++written % stepClasses === 0) yield
    }
    writer.endNested(start)
  }
  writer.endNested(all)
}

/** RegressionResult: regressions 1 → value 1. */
export function writeRegressions(writer: ProtobufWriter, field: number, values: Float32Array): void {
  writer.nested(field, () => {
    for (const value of values) {
      const start = writer.beginNested(1)
      writer.tag(1, 5)
      writer.float(value)
      writer.endNested(start)
    }
  })
}

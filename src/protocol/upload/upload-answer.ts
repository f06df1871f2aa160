// The answer to uploads as JSON: the best classes of each upload by their labels, or the values of an output that is no list of
// scores.

import { ServerError } from '../../base/server-error.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import type { DataType } from '../../tensor/data-type.ts'
import { bf16Value, fp16Value } from '../../tensor/half-float.ts'
import { elementCount } from '../../tensor/shape.ts'
import type { Tensor } from '../../tensor/tensor.ts'
import { numbersOf, stringsOf } from '../../tensor/typed-values.ts'
import { bestIndices } from '../classification.ts'
import type { UploadPlan } from './upload-plan.ts'

/** Beyond this an answer is not printed here: /infer has binary data. */
const mostElements = 256 * 1024
/** Characters of texts may become six each in JSON. */
const mostTextBytes = 2 * 1024 * 1024

type Context = {
  readonly plan: UploadPlan
  readonly topK: number
  /** '' for an upload without a name. */
  readonly fileNames: readonly string[]
  readonly version: Pick<ModelVersion, 'name' | 'version'>
  readonly isBatching: boolean
}

/** Throws ServerError. */
export function writeUploadAnswer({ outputs }: InferenceResponse, context: Context): Buffer {
  const { plan, fileNames, version, isBatching } = context
  const output = outputs.find(({ name }) => name === plan.output.name)
  if (output === undefined) throw new ServerError('INTERNAL', `the model gave no output '${plan.output.name}'`)
  requireShort(output, version.name)
  const rows = isBatching ? (output.shape[0] ?? 1) : 1
  const isScores = output.dataType !== 'BYTES' && isListOfScores(isBatching ? output.shape.slice(1) : output.shape)
  const values = isScores && output.dataType === 'FP32' ? (numbersOf(output) as Float32Array) : valuesOf(output)
  const length = values.length / Math.max(1, rows)
  const predictions = Array.from({ length: rows }, (_, row) => {
    const own = values.slice(row * length, (row + 1) * length)
    const file = fileNames[row] ?? ''
    const named = file === '' ? {} : { file }
    if (!isScores) return { ...named, values: own }
    return { ...named, classes: bestClasses(own as ArrayLike<number>, context) }
  })
  const shape = isScores ? {} : { datatype: output.dataType, shape: isBatching ? output.shape.slice(1) : output.shape }
  return Buffer.from(
    JSON.stringify({
      model_name: version.name,
      model_version: version.version,
      output: output.name,
      ...shape,
      predictions,
    }),
  )
}

function requireShort({ name, dataType, shape, bytes }: Tensor, model: string): void {
  const elements = elementCount(shape)
  const isText = dataType === 'BYTES'
  if (elements <= mostElements && (!isText || bytes.length <= mostTextBytes)) return
  const what = elements > mostElements ? `${elements} elements, at most ${mostElements}` : `${bytes.length} bytes of text, at most ${mostTextBytes}` // prettier-ignore
  throw ServerError.withoutStack('INVALID_ARG', `output '${name}' has ${what} are told here: use POST /v2/models/${model}/infer`) // prettier-ignore
}

/** One dimension that is longer than 1, and no other. */
const isListOfScores = (shape: readonly number[]): boolean => shape.filter((dim) => dim !== 1).length === 1

const toNumber: Partial<Record<DataType, (value: number | bigint) => number>> = {
  FP16: (bits) => fp16Value(Number(bits)),
  BF16: (bits) => bf16Value(Number(bits)),
}

const valuesOf = (output: Tensor): (number | string)[] =>
  output.dataType === 'BYTES'
    ? stringsOf(output)
    : Array.from(numbersOf(output) as ArrayLike<number | bigint>, toNumber[output.dataType] ?? Number)

function bestClasses(scores: ArrayLike<number>, { plan, topK }: Context): object[] {
  const best = bestIndices(scores, Math.min(topK, scores.length))
  const scoreOf = plan.isSoftmax ? softmax(scores, scores[best[0] ?? 0] ?? 0) : (index: number) => scores[index]
  return Array.from(best, (index) => {
    const label = plan.output.labels[index] ?? ''
    const told = scoreOf(index)
    // JSON has no NaN and no infinity.
    const score = Number.isFinite(told) ? told : String(told)
    return { ...(label === '' ? {} : { label }), index, score }
  })
}

/** The probability of a class by its index. */
function softmax(scores: ArrayLike<number>, largest: number): (index: number) => number {
  let sum = 0
  for (let i = 0; i < scores.length; i++) sum += Math.exp((scores[i] as number) - largest)
  return (index) => Math.exp((scores[index] as number) - largest) / sum
}

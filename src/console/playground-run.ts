// Runs a model for the playground: once, many times, as a sequence, or as a stream.

import type { InferResult, ModelConfig, NamedInput } from '../client/web.ts'
import { shapeFor, type Filled, type InputSlot, type Pieces } from './input-kinds.ts'
import { client } from './server-api.ts'

export type Fillings = Readonly<Record<string, Filled>>

export type Answer =
  | {
      readonly kind: 'result'
      readonly result: InferResult
      readonly times: readonly number[]
      readonly classified: ReadonlySet<string>
    }
  | {
      readonly kind: 'sequence'
      readonly results: readonly InferResult[]
      /** How long a piece is; null where pieces are not pieces of time. */
      readonly pieceSecs: number | null
      readonly totalMs: number
    }
  | { readonly kind: 'stream'; readonly text: string; readonly firstMs: number | null; readonly totalMs: number | null }
  | { readonly kind: 'error'; readonly message: string }

/** Which model with which inputs. */
export type Call = {
  readonly model: string
  /** '' for the version that the server chooses. */
  readonly version: string
  readonly config: ModelConfig
  readonly slots: readonly InputSlot[]
  readonly filled: Fillings
  readonly repeats: number
}

export const isDecoupled = (config: ModelConfig): boolean =>
  (config['model_transaction_policy'] as { decoupled?: boolean } | undefined)?.decoupled === true

const isSequence = (config: ModelConfig): boolean => config['sequence_batching'] !== undefined

/** Shows the answer, and a stream as it comes. Throws what the server says. */
export async function runModel(call: Call, show: (answer: Answer) => void): Promise<void> {
  if (isDecoupled(call.config)) await stream(call, show)
  else show(isSequence(call.config) ? await runSequence(call) : await infer(call))
}

const versionOption = (version: string): { version?: string } => (version === '' ? {} : { version })

const elementBytes: Readonly<Record<string, number>> = { FP64: 8, INT64: 8, UINT64: 8, FP32: 4, INT32: 4, UINT32: 4, FP16: 2, BF16: 2, INT16: 2, UINT16: 2 } // prettier-ignore

/** Throws where an input is not filled. */
function inputsOf(slots: readonly InputSlot[], filled: Fillings): NamedInput[] {
  return slots.map((slot) => {
    const value = filled[slot.name]
    const dataType = slot.dataType as 'FP32'
    if (value === undefined || 'problem' in value) throw new Error(`input ${slot.name} is not filled`)
    if ('bytes' in value) {
      const elements = value.bytes.length / (elementBytes[slot.dataType] ?? 1)
      return { name: slot.name, dataType, bytes: value.bytes, shape: shapeFor(slot, elements) }
    }
    return { name: slot.name, dataType, data: value.values as number[], shape: shapeOfFilled(slot, value) }
  })
}

export function shapeOfFilled(
  slot: InputSlot,
  { values, shape }: { readonly values: readonly unknown[]; readonly shape?: readonly number[] },
): readonly number[] {
  const fits =
    shape !== undefined &&
    shape.length === slot.shape.length &&
    shape.reduce((product, size) => product * size, 1) === values.length
  return fits ? shape : shapeFor(slot, values.length)
}

const classesShown = 10

async function infer({ model, version, config, slots, filled, repeats }: Call): Promise<Answer> {
  const inputs = inputsOf(slots, filled)
  const labelled = config.output.filter(
    (output) => typeof output['label_filename'] === 'string' && output['label_filename'] !== '',
  )
  const classified = new Set(labelled.map(({ name }) => name))
  const outputs = config.output.map(({ name }) =>
    classified.has(name) ? { name, classification: classesShown } : name,
  )
  const options = { ...versionOption(version), ...(classified.size === 0 ? {} : { outputs }) }
  const times: number[] = []
  let result: InferResult | null = null
  for (let i = 0; i < repeats; i++) {
    const started = performance.now()
    result = await client.infer(model, inputs, options)
    times.push(performance.now() - started)
  }
  return { kind: 'result', result: result as InferResult, times, classified }
}

/** One request for each piece of a sound, or as often as the visitor said. */
async function runSequence({ model, version, slots, filled, repeats }: Call): Promise<Answer> {
  const parts = slots.map(({ name }): [string, Pieces | null] => {
    const value = filled[name]
    return [name, value !== undefined && 'values' in value ? (value.pieces ?? null) : null]
  })
  const longest = parts.map(([, pieces]) => pieces).find((pieces) => pieces !== null) ?? null
  const count = longest?.values.length ?? repeats
  const sequence = client.sequence(model, versionOption(version))
  const started = performance.now()
  const results: InferResult[] = []
  for (let i = 0; i < count; i++) {
    const now: Record<string, Filled> = { ...filled }
    for (const [name, pieces] of parts) if (pieces !== null) now[name] = { values: pieces.values[i] ?? [] }
    const inputs = inputsOf(slots, now)
    results.push(await sequence.infer(inputs, { end: i === count - 1 }))
  }
  return { kind: 'sequence', results, pieceSecs: longest?.seconds ?? null, totalMs: performance.now() - started }
}

async function stream({ model, version, slots, filled }: Call, show: (answer: Answer) => void): Promise<void> {
  const fields: Record<string, unknown> = {}
  for (const slot of slots) {
    const value = filled[slot.name]
    if (value === undefined || !('values' in value)) throw new Error(`a stream takes text or numbers for ${slot.name}`)
    fields[slot.name] = value.values.length === 1 ? value.values[0] : value.values
  }
  const started = performance.now()
  let text = ''
  let firstMs: number | null = null
  show({ kind: 'stream', text, firstMs, totalMs: null })
  for await (const piece of client.generateStream(model, fields, versionOption(version))) {
    firstMs ??= performance.now() - started
    const { model_name: _name, model_version: _version, id: _id, ...outputs } = piece
    const values = Object.values(outputs)
    text += values.every((each) => typeof each === 'string') ? `${values.join(' ')} ` : `${JSON.stringify(outputs)}\n`
    show({ kind: 'stream', text, firstMs, totalMs: null })
  }
  show({ kind: 'stream', text, firstMs, totalMs: performance.now() - started })
}

// What a model says about how its inputs are filled: `playground:` in galatea.yaml by the names of inputs, and what config.pbtxt says
// about uploads. Pure functions. What does not fit is left out: a hint is help, and the form works without it.

import type { ModelConfig } from '../client/web.ts'

const fillings = ['drawing', 'picture', 'sound', 'numbers', 'text', 'json', 'file'] as const
export type Filling = (typeof fillings)[number]

export type InputHint = {
  /** The way that is offered first. */
  readonly as?: Filling
  /** What the form begins with, for numbers and text. */
  readonly value?: string
  /** The value of a cell that is drawn over. */
  readonly ink?: number
  /** Samples per second. */
  readonly rate?: number
  /** What pixels from 0 to 255 are multiplied with, then what is subtracted, then what is divided by. */
  readonly scale?: number
  readonly mean?: readonly number[]
  readonly std?: readonly number[]
}

type Members = Readonly<Record<string, unknown>>

/** `extra`: what galatea.yaml has beside the keys of the registry. */
export function inputHints(extra: unknown, config: ModelConfig): ReadonlyMap<string, InputHint> {
  const found = new Map<string, InputHint>()
  const said = members(members(extra)['playground'])
  const upload = { ...members(members(extra)['predict']), ...uploadParameters(config) }
  const uploaded = text(upload['input']) ?? (config.input.length === 1 ? config.input[0]?.name : undefined)
  if (uploaded !== undefined) found.set(uploaded, uploadHint(upload))
  for (const [name, value] of Object.entries(said)) {
    found.set(name, { ...found.get(name), ...ownHint(typeof value === 'string' ? { as: value } : members(value)) })
  }
  return found
}

/** The shape of a picture is known without a hint, and small ones can be drawn, too. */
const uploadFillings: Readonly<Record<string, Filling>> = { audio: 'sound', text: 'text' }

function uploadHint(upload: Members): InputHint {
  return {
    ...present('as', uploadFillings[text(upload['kind']) ?? '']),
    ...present('rate', number(upload['sample_rate'])),
    ...pixelHint(upload),
  }
}

function ownHint(said: Members): InputHint {
  const { value } = said
  const as = fillings.find((each) => each === said['as'])
  return {
    ...present('as', as),
    ...present('value', value === undefined ? undefined : Array.isArray(value) ? value.join(', ') : text(value)),
    ...present('ink', number(said['ink'])),
    ...present('rate', number(said['rate'])),
    ...pixelHint(said),
  }
}

const pixelHint = (said: Members): InputHint => ({
  ...present('scale', number(said['scale'])),
  ...present('mean', numbers(said['mean'])),
  ...present('std', numbers(said['std'])),
})

const present = <Key extends string, Value>(key: Key, value: Value | undefined): { [K in Key]?: Value } =>
  value === undefined ? {} : ({ [key]: value } as { [K in Key]: Value })

/** `predict`, `predict.scale` … of config.pbtxt, by the names of galatea.yaml. */
function uploadParameters(config: ModelConfig): Members {
  const parameters = members(config['parameters'])
  const rows = Object.entries(parameters).flatMap(([key, value]): [string, unknown][] => {
    if (key !== 'predict' && !key.startsWith('predict.')) return []
    return [[key === 'predict' ? 'kind' : key.slice('predict.'.length), members(value)['string_value']]]
  })
  return Object.fromEntries(rows)
}

const members = (value: unknown): Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Members) : {}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined

/** A number, or a fraction as `1/255`. */
function number(value: unknown): number | undefined {
  const [over, under = '1', ...rest] = (text(value) ?? '').split('/')
  const quotient = over?.trim() === '' || rest.length > 0 ? Number.NaN : Number(over) / Number(under)
  return Number.isFinite(quotient) ? quotient : undefined
}

/** One number for each of three channels. */
function numbers(value: unknown): readonly number[] | undefined {
  const parts = (Array.isArray(value) ? value : (text(value) ?? '').split(',')).map(number)
  if (parts.length === 0 || parts.length > 4 || parts.includes(undefined)) return undefined
  return Array.from({ length: 4 }, (_, i) => parts[i] ?? parts[0] ?? 0)
}

// How a model's upload is prepared: a picture, a sound or a text becomes the model's input. The same keys stand in `parameters` of
// config.pbtxt (`predict`, `predict.size` …) and under `predict:` in galatea.yaml.

import { anyText, numberThat, oneOf, trueOrFalse, type ParameterRule } from './parameter-rule.ts'

const mostSide = 16_384
const mostChannels = 4

const wholeBetween = (from: number, to: number): ParameterRule<number> =>
  numberThat(`a whole number from ${from} to ${to}`, (value) => Number.isInteger(value) && value >= from && value <= to)

/** `0.0039`, or `1/255`. */
function numberOrFraction(text: string): number | null {
  const parts = text.trim().split('/')
  if (parts.length > 2 || parts.some((part) => part.trim() === '')) return null
  const value = Number(parts[0]) / Number(parts[1] ?? 1)
  return Number.isFinite(value) ? value : null
}

function numbers(text: string): readonly number[] | null {
  const values = text.split(',', mostChannels + 1).map(numberOrFraction)
  return values.length <= mostChannels && values.every((value) => value !== null) ? (values as number[]) : null
}

type Size = { readonly height: number; readonly width: number }

const size: ParameterRule<Size> = {
  expected: `a side in pixels as '224', or height x width as '224x320', each from 1 to ${mostSide}`,
  read: (text) => {
    const [, first = '', second = first] = /^\s*(\d{1,5})(?:\s*[xX]\s*(\d{1,5}))?\s*$/.exec(text) ?? []
    const [height, width] = [Number(first), Number(second)]
    return height >= 1 && width >= 1 && height <= mostSide && width <= mostSide ? { height, width } : null
  },
}

const list = `one number, or one for each channel with commas between`

export const uploadRules = {
  kind: oneOf('image', 'audio', 'text'),
  input: anyText,
  output: anyText,
  top_k: wholeBetween(1, 1000),
  softmax: trueOrFalse,
  size,
  resize: wholeBetween(1, mostSide),
  fit: oneOf('crop', 'stretch', 'pad'),
  resample: oneOf('linear', 'cubic', 'lanczos', 'nearest'),
  layout: oneOf('NCHW', 'NHWC'),
  channels: oneOf('RGB', 'BGR', 'grey'),
  scale: { expected: "a number, or a fraction as '1/255'", read: numberOrFraction },
  mean: { expected: list, read: numbers },
  std: {
    expected: `${list}, none of them 0`,
    read: (text: string) => {
      const values = numbers(text)
      return values === null || values.includes(0) ? null : values
    },
  },
  sample_rate: wholeBetween(1000, 384_000),
} satisfies Record<string, ParameterRule<unknown>>

type Key = keyof typeof uploadRules
type ValueOf<K extends Key> = (typeof uploadRules)[K] extends ParameterRule<infer Value> ? Value : never

/** Null: the model does not say. */
export type UploadHint = { readonly [K in Key]: ValueOf<K> | null }

export const uploadKeys = Object.keys(uploadRules) as readonly Key[]

export type UploadParameter = 'predict' | `predict.${Exclude<Key, 'kind'>}`

/** The key as config.pbtxt has it. */
export const uploadParameter = (key: Key): UploadParameter => (key === 'kind' ? 'predict' : `predict.${key}`)

const helps: Readonly<Record<Key, string>> = {
  kind: '[What uploads to `/predict` are](../guide/predict.md)',
  input: 'The input that an upload fills; without: the only input that a request needs',
  output: 'The output that is told; without: the first one with labels, else the first',
  top_k: 'How many classes an answer lists; 5',
  softmax: 'Whether scores become probabilities: `true` for a model whose last layer is linear; `false`',
  size: "The picture's size for the model; without: what the input's dims say",
  resize: 'The shorter side becomes so long before `size` is cut out of the middle',
  fit: 'How a picture of another shape becomes `size`: its middle, all of it distorted, or all of it with black borders; `crop`',
  resample: 'How pixels are computed; `linear`',
  layout: "Where the channels stand; without: what the input's dims say",
  channels: "What the channels are; without: `RGB`, or `grey` where the input's dims have one channel",
  scale: 'What pixels from 0 to 255 are multiplied with; 1/255 for floating point, 1 for integers',
  mean: 'What is subtracted after `scale`; 0',
  std: 'What is divided by after `mean`; 1',
  sample_rate: 'Samples per second that the model wants of a sound; without: those of the file',
}

/** The rows for the table of model parameters. */
export const uploadParameterRows = uploadKeys.map((key) => ({
  key: uploadParameter(key),
  rule: uploadRules[key] as ParameterRule<unknown>,
  help: helps[key],
}))

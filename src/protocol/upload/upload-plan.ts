// What a model asks of an upload, worked out once for each version: from its hint, and from the shapes in its configuration.

import { ServerError } from '../../base/server-error.ts'
import { uploadKeys, uploadParameter, uploadRules, type UploadHint } from '../../config/upload-parameters.ts'
import type { ModelConfig } from '../../config/model-config.ts'
import type { InputSpec, ModelSignature, OutputSpec } from '../../config/model-signature.ts'
import { shapeText, type Shape } from '../../tensor/shape.ts'

export type ImagePlan = {
  readonly height: number
  readonly width: number
  readonly channels: number
  readonly isGrey: boolean
  /** Blue comes first. */
  readonly isReversed: boolean
  readonly isPlanar: boolean
  /** 0: the picture becomes `height` x `width` at once. */
  readonly shorterSide: number
  readonly fit: 'crop' | 'stretch' | 'pad'
  readonly resample: 'linear' | 'cubic' | 'lanczos' | 'nearest'
  readonly scale: number
  /** One for each channel. */
  readonly mean: readonly number[]
  readonly std: readonly number[]
}

type AudioPlan = {
  /** 0: as the file has it. */
  readonly sampleRate: number
  /** -1: as long as the sound is. */
  readonly samples: number
}

export type UploadPlan = {
  readonly kind: 'image' | 'audio' | 'text'
  readonly input: InputSpec
  readonly output: OutputSpec
  readonly topK: number
  readonly isSoftmax: boolean
  /** Of one upload, without the dimension of a batch; -1 where its length decides. */
  readonly shape: Shape
  readonly image: ImagePlan | null
  readonly audio: AudioPlan | null
}

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

/** The texts of `parameters`, and of `predict` in galatea.yaml where `parameters` has none. */
export function hintTexts({ parameters }: ModelConfig, registered: unknown): Map<string, string> {
  const texts = new Map<string, string>()
  if (typeof registered === 'string') texts.set('kind', registered)
  else if (typeof registered === 'object' && registered !== null && !Array.isArray(registered)) {
    for (const [key, value] of Object.entries(registered)) texts.set(key.replaceAll('-', '_'), textOf(value))
  }
  for (const key of uploadKeys) {
    const text = parameters.get(uploadParameter(key))?.stringValue
    if (text !== undefined) texts.set(key, text)
  }
  return texts
}

const textOf = (value: unknown): string =>
  Array.isArray(value) ? value.map(String).join(',') : typeof value === 'string' ? value : JSON.stringify(value)

/** Throws INVALID_ARG for a model that has no hint, or one that cannot be read. */
export function readUploadHint(name: string, texts: ReadonlyMap<string, string>): UploadHint {
  const hint: Record<string, unknown> = {}
  for (const key of uploadKeys) {
    const text = texts.get(key)
    const { expected, read } = uploadRules[key]
    hint[key] = text === undefined ? null : read(text)
    if (text !== undefined && hint[key] === null) {
      throw invalid(`'${uploadParameter(key)}' of model '${name}' must be ${expected}, got '${text.slice(0, 100)}'`)
    }
  }
  const unknown = [...texts.keys()].find((key) => !Object.hasOwn(uploadRules, key))
  if (unknown !== undefined) {
    throw invalid(
      `'predict' of model '${name}' has the key '${unknown.slice(0, 40)}', expected: ${uploadKeys.join(', ')}`,
    )
  }
  return hint as UploadHint
}

/** Throws INVALID_ARG. */
export function planUpload(signature: ModelSignature, hint: UploadHint): UploadPlan {
  const { modelName: name } = signature
  const input = chosenInput(signature, hint)
  if (hint.kind === null) throw noHint(signature, input)
  const output = chosenOutput(signature, hint)
  const common = {
    kind: hint.kind,
    input,
    output,
    topK: hint.top_k ?? 5,
    isSoftmax: hint.softmax ?? false,
    image: null,
    audio: null,
  }
  if (hint.kind === 'text') {
    if (input.dataType !== 'BYTES') {
      throw invalid(
        `${inputOf(name, input)} is of type ${input.dataType}, and a text goes into an input of TYPE_STRING`,
      )
    }
    return { ...common, shape: filled(name, input, 1) }
  }
  if (input.dataType === 'BYTES') {
    // The model decodes the file itself.
    return { ...common, shape: filled(name, input, 1) }
  }
  if (hint.kind === 'audio') {
    const open = input.dims.findIndex((dim) => dim === -1)
    const samples = open >= 0 ? -1 : input.dims.reduce((product, dim) => product * dim, 1)
    if (input.dataType !== 'FP32' && input.dataType !== 'INT16') {
      throw invalid(`${inputOf(name, input)} is of type ${input.dataType}, and a sound goes into FP32 or INT16`)
    }
    return { ...common, shape: filled(name, input, -1), audio: { sampleRate: hint.sample_rate ?? 0, samples } }
  }
  const image = planImage(name, input, hint)
  return { ...common, shape: imageShape(name, input, image), image }
}

const inputOf = (name: string, input: InputSpec): string => `input '${input.name}' of model '${name}'`

/** The dims with one open dimension filled. */
function filled(name: string, input: InputSpec, value: number): Shape {
  const others = input.dims.filter((dim) => dim !== -1 && dim !== 1)
  const open = input.dims.filter((dim) => dim === -1)
  if (value === 1 && others.length > 0) throw unfit(name, input, 'one text or file')
  if (open.length > 1) throw unfit(name, input, 'one dimension')
  return input.dims.map((dim) => (dim === -1 ? value : dim))
}

const unfit = (name: string, input: InputSpec, what: string): ServerError =>
  invalid(`${inputOf(name, input)} has the shape ${shapeText(input.dims)}, into which ${what} does not go`)

function chosenInput({ modelName, inputs, inputByName }: ModelSignature, hint: UploadHint): InputSpec {
  if (hint.input !== null) {
    const named = inputByName.get(hint.input)
    if (named !== undefined) return named
    throw invalid(
      `'predict.input' of model '${modelName}' must be one of ${inputs.map((each) => each.name).join(', ')}, got '${hint.input.slice(0, 100)}'`,
    )
  }
  const required = inputs.filter(({ isOptional }) => !isOptional)
  const [only] = required.length === 0 ? inputs : required
  if (only !== undefined && required.length <= 1) return only
  throw invalid(
    `an upload fills one input, and model '${modelName}' needs ${required.length}: ${required.map((each) => each.name).join(', ')}. ` +
      `Use POST /v2/models/${modelName}/infer`,
  )
}

function chosenOutput({ modelName, outputs, outputByName }: ModelSignature, hint: UploadHint): OutputSpec {
  const labelled = outputs.find(({ labels }) => labels.length > 0)
  const chosen = hint.output === null ? (labelled ?? outputs[0]) : outputByName.get(hint.output)
  if (chosen !== undefined) return chosen
  throw invalid(
    `'predict.output' of model '${modelName}' must be one of ${outputs.map((each) => each.name).join(', ')}, got '${hint.output}'`,
  )
}

/** What to add, for a model of these shapes. */
function noHint({ modelName }: ModelSignature, input: InputSpec): ServerError {
  const { dims, dataType } = input
  const isText = dataType === 'BYTES'
  const isImage = !isText && dims.length >= 2
  const lines = isText
    ? ['predict:', '  kind: text', '  top_k: 5']
    : isImage
      ? ['predict:', '  kind: image', '  size: 224']
      : ['predict:', '  kind: audio', '  sample_rate: 16000']
  return invalid(
    `model '${modelName}' does not say how an upload becomes its input '${input.name}' (${dataType}, ${shapeText(dims)}). ` +
      `Put these lines into 'galatea.yaml' beside its config.pbtxt, with the values that the model was trained with:\n` +
      `${lines.join('\n')}\nEvery key: docs/guide/predict.md`,
  )
}

function planImage(name: string, input: InputSpec, hint: UploadHint): ImagePlan {
  const isFloat = input.dataType === 'FP32' || input.dataType === 'FP16' || input.dataType === 'FP64'
  const found = placesOf(name, input, hint)
  const channels = found.channels
  const isGrey = hint.channels === null ? channels === 1 : hint.channels === 'grey'
  if (isGrey ? channels !== 1 : channels !== 3) {
    throw invalid(
      `${inputOf(name, input)} has ${channels} channels in ${shapeText(input.dims)}, and 'predict.channels' is ` +
        `${hint.channels ?? 'not set'}: a grey picture has 1 channel, one in colour has 3`,
    )
  }
  const spread = (key: 'mean' | 'std', values: readonly number[] | null, fallback: number): number[] => {
    if (values !== null && values.length !== 1 && values.length !== channels) {
      throw invalid(`'predict.${key}' of model '${name}' has ${values.length} numbers for ${channels} channels`)
    }
    return Array.from({ length: channels }, (_, i) => values?.[values.length === 1 ? 0 : i] ?? fallback)
  }
  if (hint.resize !== null && hint.resize < Math.max(found.height, found.width)) {
    throw invalid(
      `'predict.resize' of model '${name}' is ${hint.resize}, less than the size ${found.height}x${found.width}`,
    )
  }
  return {
    ...found,
    isGrey,
    isReversed: hint.channels === 'BGR',
    shorterSide: hint.resize ?? 0,
    fit: hint.fit ?? 'crop',
    resample: hint.resample ?? 'linear',
    scale: hint.scale ?? (isFloat ? 1 / 255 : 1),
    mean: spread('mean', hint.mean, 0),
    std: spread('std', hint.std, 1),
  }
}

type Places = { readonly height: number; readonly width: number; readonly channels: number; readonly isPlanar: boolean }

/** Which dimension is which. A dimension of 1 in front may stand for a batch of one. */
function placesOf(name: string, input: InputSpec, { size, layout, channels: wanted }: UploadHint): Places {
  const dims =
    input.dims.length === 4 && (input.dims[0] === 1 || input.dims[0] === -1) ? input.dims.slice(1) : input.dims
  const isChannels = (dim: number | undefined): boolean => dim === 1 || dim === 3
  let places: Places
  if (dims.length === 3) {
    const isPlanar = layout === null ? isChannels(dims[0]) || !isChannels(dims[2]) : layout === 'NCHW'
    const [channels = -1, height = -1, width = -1] = isPlanar ? dims : [dims[2], dims[0], dims[1]]
    places = { channels, height, width, isPlanar }
  } else if (dims.length === 2) places = { channels: 1, height: dims[0] ?? -1, width: dims[1] ?? -1, isPlanar: true }
  else if (dims.length === 1 && size !== null) {
    const count = dims[0] === -1 ? -1 : (dims[0] ?? 0) / (size.height * size.width)
    places = { channels: count, height: -1, width: -1, isPlanar: layout !== 'NHWC' }
  } else {
    throw invalid(
      `${inputOf(name, input)} has the shape ${shapeText(input.dims)}, which does not tell height and width: set 'predict.size'`,
    )
  }
  const height = places.height === -1 ? (size?.height ?? -1) : places.height
  const width = places.width === -1 ? (size?.width ?? -1) : places.width
  if (height === -1 || width === -1) {
    throw invalid(
      `the size of a picture is open in ${inputOf(name, input)}, ${shapeText(input.dims)}: set 'predict.size'`,
    )
  }
  if (size !== null && (size.height !== height || size.width !== width)) {
    throw invalid(
      `'predict.size' of model '${name}' is ${size.height}x${size.width}, and its input '${input.name}' is ${height}x${width}`,
    )
  }
  const channels = places.channels === -1 ? (wanted === 'grey' ? 1 : 3) : places.channels
  return { channels, height, width, isPlanar: places.isPlanar }
}

function imageShape(name: string, input: InputSpec, image: ImagePlan): Shape {
  const { height, width, channels, isPlanar } = image
  const { dims } = input
  if (dims.length === 1) return [height * width * channels]
  if (dims.length === 2) return [height, width]
  const shape = isPlanar ? [channels, height, width] : [height, width, channels]
  const whole = dims.length === 4 ? [1, ...shape] : shape
  if (whole.every((size, i) => dims[i] === -1 || dims[i] === size)) return whole
  throw unfit(name, input, `a picture as ${shapeText(whole)}`)
}

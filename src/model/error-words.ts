// The errors that Galatea words in its own way unless `--triton-defaults` is set: one row for each of them, with the code
// and the text of both modes. In Galatea's own words a mistake of a client is INVALID_ARG, and the text says what was expected.

import type { Caller } from '../access/caller.ts'
import type { ErrorCode } from '../base/server-error.ts'
import { unorderedMapOrder } from '../base/unordered-map-order.ts'
import type { InputSpec, ModelSignature } from '../config/model-signature.ts'
import { shapeText, type Shape } from '../tensor/shape.ts'
import { idPrefix } from './id-prefix.ts'

/** What is known of the call when an error is worded. */
export type WordedCall = {
  /** The path of an HTTP request or a gRPC method; '' for a call without one. */
  readonly path: string
  /** Null before the version is chosen. */
  readonly signature: ModelSignature | null
  header(name: string): string | null
  /** Absent: nothing is known of the caller, so no other model is named to it. */
  readonly caller?: Caller
}

type Row<Facts> = {
  readonly tritonCode: ErrorCode
  readonly triton: (facts: Facts) => string
  readonly ownCode: ErrorCode
  readonly own: (facts: Facts, call: WordedCall) => string
}

type JsonKind = keyof typeof jsonKinds

/** The kinds of JSON values that members have: in RapidJSON's words, and in ours. */
const jsonKinds = {
  string: ['string', 'a string'],
  boolean: ['boolean', 'true or false'],
  'unsigned-integer': ['unsigned-integer', 'an integer that is not negative'],
  'signed-integer': ['signed-integer', 'an integer'],
  number: ['number', 'a number'],
  array: ['array', 'an array'],
  object: ['object', 'an object'],
} as const

const wrongKind = (kind: JsonKind): string => {
  const [name] = jsonKinds[kind]
  return `attempt to access JSON non-${name} as ${kind === 'number' ? 'double' : name}`
}

/** Most inputs or outputs that a message lists. */
const mostListed = 16

function listed<T>(items: readonly T[], textOf: (item: T) => string): string {
  const texts = items.slice(0, mostListed).map(textOf)
  if (items.length > mostListed) texts.push(`${items.length - mostListed} more`)
  return texts.join(', ')
}

type TensorSpec = Pick<InputSpec, 'name' | 'dataType' | 'dims'> & { readonly isOptional?: boolean }

const fullShape = ({ isBatching }: ModelSignature, dims: Shape): Shape => (isBatching ? [-1, ...dims] : dims)

function tensorsText(signature: ModelSignature, tensors: readonly TensorSpec[]): string {
  return listed(
    tensors,
    ({ name, dataType, dims, isOptional }) =>
      `'${name}' ${dataType} ${shapeText(fullShape(signature, dims))}${isOptional === true ? ' (optional)' : ''}`,
  )
}

/** ` Model 'm' expects …`: a sentence to put behind another one. */
function expectedInputs({ signature }: WordedCall): string {
  if (signature === null) return ''
  const { modelName, inputs, isBatching, maxBatchSize } = signature
  if (inputs.length === 0) return ` Model '${modelName}' takes no inputs.`
  const batch = isBatching ? ` The first dimension is the batch size, 1 to ${maxBatchSize}.` : ''
  return ` Model '${modelName}' expects ${inputs.length === 1 ? 'the input' : 'the inputs'} ${tensorsText(signature, inputs)}.${batch}`
}

function expectedOutputs({ signature }: WordedCall): string {
  if (signature === null) return ''
  return ` Model '${signature.modelName}' has ${tensorsText(signature, signature.outputs)}.`
}

/** The form of a request for this model, to copy. */
function exampleRequest({ signature }: WordedCall): string {
  if (signature === null) return ''
  const inputs = signature.inputs.slice(0, mostListed).map(({ name, dataType, dims }) => {
    const shape = fullShape(signature, dims).map((size) => (size < 0 ? 1 : size))
    return `{"name":${JSON.stringify(name)},"datatype":"${dataType}","shape":${shapeText(shape)},"data":[…]}`
  })
  return ` Expected {"inputs":[${inputs.join(',')}]}.`
}

const missingBatchDimension = (name: string, got: Shape, maxBatchSize: number): string =>
  `input '${name}' has the shape ${shapeText(got)}, which lacks the batch dimension: send ${shapeText([1, ...got])} for ` +
  `one row; a request takes 1 to ${maxBatchSize} rows.`

/** Whether the shape is that of one row, without the batch dimension in front. */
const isRow = (shape: Shape, dims: Shape): boolean =>
  shape.length === dims.length && dims.every((size, i) => size === -1 || size === shape[i])

const unknownId = idPrefix('')
const ownPrefix = (prefix: string): string => (prefix === unknownId ? '' : prefix)

/** What to send in place of bytes that are not JSON. */
function binaryAdvice(call: WordedCall, found: string): string {
  const type = call.header('content-type') ?? ''
  const isForm = type.startsWith('multipart/')
  const isFile =
    /^(image|audio|video)\/|^application\/(octet-stream|pdf|x-npy)/.test(type) || found.startsWith('byte 0x')
  if (!isForm && !isFile) return ''
  const what = isForm
    ? `A form ('${type.split(';', 1)[0]}') is not read`
    : `The body is not JSON${type === '' ? '' : ` (Content-Type: ${type})`}`
  if (!call.path.endsWith('/infer')) return ` ${what}.`
  if (isForm) return ` ${what} here: POST /v2/models/${call.signature?.modelName ?? '{model}'}/predict takes forms.`
  return (
    ` ${what}: send the bytes alone as the body, with the header 'Inference-Header-Content-Length: 0'. ` +
    'They become the one input of the model.'
  )
}

const row = <Facts>(words: Row<Facts>): Row<Facts> => words

/** For a mistake whose text is good and whose code is not. */
const sameText = (tritonCode: ErrorCode, ownCode: ErrorCode = 'INVALID_ARG'): Row<{ readonly text: string }> =>
  row({ tritonCode, triton: ({ text }) => text, ownCode, own: ({ text }) => text })

/** For mistakes that Triton counts as such: only the text differs. */
const mistake = <Facts>(triton: Row<Facts>['triton'], own: Row<Facts>['own']): Row<Facts> =>
  row({ tritonCode: 'INVALID_ARG', triton, ownCode: 'INVALID_ARG', own })

/** For mistakes that are an error of the server in Triton. */
const misread = <Facts>(triton: Row<Facts>['triton'], own: Row<Facts>['own']): Row<Facts> =>
  row({ tritonCode: 'INTERNAL', triton, ownCode: 'INVALID_ARG', own })

type MemberFacts = { readonly member: string; readonly verb: 'parse' | 'set' }
const memberPrefix = ({ member, verb }: MemberFacts): string => (member === '' ? '' : `Unable to ${verb} '${member}': `)

type PrefixedInput = { readonly prefix: string; readonly input: string; readonly model: string }

const batchNote =
  'NOTE: Setting a non-zero max_batch_size in the model config requires a batch dimension to be prepended to each ' +
  'input shape. If you want to specify the full shape including the batch dim in your input dims config, try setting ' +
  'max_batch_size to zero. See the model configuration docs for more info on max_batch_size.'

/** The text of a body: JSON and its members. */
const bodyWords = {
  jsonSyntax: misread<{ text: string; offset: number; found: string }>(
    ({ text, offset }) => `failed to parse the request JSON buffer: ${text} at ${offset}`,
    ({ text, offset, found }, call) =>
      `the request body is not valid JSON: ${text.replace(/\.$/, '')} at byte ${offset}${found === '' ? '' : `, found ${found}`}.` +
      (found === `"'"` ? ' Strings and names take double quotes in JSON.' : '') +
      (found === '"}"' && text.startsWith('Missing a name') ? ' JSON has no comma before a "}".' : '') +
      binaryAdvice(call, found),
  ),
  unknownDataType: mistake<{ input: string }>(
    ({ input }) => `invalid datatype for input ${input}`,
    ({ input }, call) =>
      `the datatype of input '${input}' is not known: data types are written as FP32, INT64 or BYTES.${expectedInputs(call)}`,
  ),
  missingMember: misread<MemberFacts & { other: string }>(
    (facts) => `${memberPrefix(facts)}attempt to access non-existing object member '${facts.member}'`,
    ({ member, other }, call) => {
      const model = call.signature?.modelName ?? '{model}'
      const isRoot = member === 'inputs'
      const where = isRoot ? 'the request' : 'an input or output of the request'
      let text = `${where} has no '${member}'.`
      if (isRoot && other === 'instances') {
        text += ` 'instances' is the form of POST /v1/models/${model}:predict.`
      } else if (isRoot && call.signature?.inputByName.has(other) === true) {
        text += ` '${other}' beside no 'inputs' is the form of POST /v2/models/${model}/generate.`
      }
      return text + exampleRequest(call)
    },
  ),
  noMember: misread<{ member: string }>(
    ({ member }) => `attempt to access non-existing object member '${member}'`,
    ({ member }) => `the request has no '${member}'`,
  ),
  memberKind: misread<MemberFacts & { kind: JsonKind }>(
    (facts) => `${memberPrefix(facts)}${wrongKind(facts.kind)}`,
    ({ member, kind }, call) =>
      `${member === '' ? 'a value of the request' : `'${member}'`} must be ${jsonKinds[kind][1]}.` +
      (member === 'inputs' ? exampleRequest(call) : ''),
  ),
  shapeKind: misread<{ input: string; kind: JsonKind }>(
    ({ kind }) => `Unable to parse 'shape': ${wrongKind(kind)}`,
    ({ input }, call) =>
      `'shape' of input '${input}' must be an array of integers that are not negative.${expectedInputs(call)}`,
  ),
  notAnObject: misread<{ prefix: string; what: string }>(
    ({ prefix }) => `${prefix}attempt to get members for non-object`,
    ({ what }) => `${what} must be a JSON object`,
  ),
  notANestedObject: misread<{ member: string }>(
    ({ member }) => `Expected JSON object for keyword: '${member}': ${wrongKind('object')}`,
    ({ member }) => `'${member}' must be a JSON object`,
  ),
  elementKind: misread<{ input: string; dataType: string; kind: JsonKind; index: number; found: string }>(
    ({ dataType, kind }) =>
      `Unable to parse ${dataType === 'BYTES' ? 'JSON bytes array' : "'data'"}: ${wrongKind(kind)}`,
    ({ input, dataType, kind, index, found }, call) =>
      `'data' of input '${input}' does not hold ${dataType}: element ${index} must be ${jsonKinds[kind][1]}${found === '' ? '' : `, found ${found}`}.` +
      expectedInputs(call),
  ),
  elementCount: misread<{ input: string; expected: number; found: number }>(
    () => "Unable to parse 'data': Shape does not match true shape of 'data' field",
    ({ input, expected, found }, call) =>
      `'data' of input '${input}' has ${found} elements, but its shape takes ${expected}.${expectedInputs(call)}`,
  ),
  control: sameText('INTERNAL'),
  rawInputs: mistake<{ prefix: string; count: number; model: string }>(
    ({ prefix, count, model }) =>
      `${prefix}Raw request must only have 1 input (found 1) to be deduced but got ${count} inputs in '${model}' model configuration`,
    ({ count, model }, call) =>
      call.header('inference-header-content-length') === null
        ? `the request has no body.${exampleRequest(call)}`
        : `a body without JSON ('Inference-Header-Content-Length: 0') is for models with one input, but '${model}' has ${count}: ` +
          `send a JSON head with 'binary_data_size' for each input.${expectedInputs(call)}`,
  ),
  rawSize: mistake<{ prefix: string; model: string; input: string; expected: number; found: number }>(
    ({ prefix, model, expected, found }) =>
      `${prefix}input byte size mismatch for input 'raw_input' for model '${model}'. Expected ${expected}, got ${found}`,
    ({ model, input, expected, found }, call) =>
      found === 0 && call.header('inference-header-content-length') === null
        ? `the request has no body.${exampleRequest(call)}`
        : `a body without JSON ('Inference-Header-Content-Length: 0') is the input '${input}' of model '${model}', which takes ` +
          `${expected} bytes, but the body has ${found}.${expectedInputs(call)}`,
  ),
  generateShape: mistake<{ input: string; dims: Shape; count: number }>(
    ({ input }) => `The schema can not convert input '${input}' to tensor with proper shape`,
    ({ input, dims, count }) =>
      `input '${input}' has ${count} elements (of nested lists the outer one counts), which do not fill the shape ` +
      `${shapeText(dims)}: write all its elements as one flat list.`,
  ),
}

/** What does not fit the model. */
const fitWords = {
  unexpectedOutput: mistake<{ output: string; model: string }>(
    ({ output, model }) => `unexpected inference output '${output}' for model '${model}'`,
    ({ output, model }, call) =>
      `unexpected inference output '${output}' for model '${model}'.${expectedOutputs(call)}`,
  ),
  unexpectedInput: mistake<{ input: string; model: string }>(
    ({ input, model }) => `unexpected inference input '${input}' for model '${model}'`,
    ({ input, model }, call) => `unexpected inference input '${input}' for model '${model}'.${expectedInputs(call)}`,
  ),
  inputCount: mistake<{
    prefix: string
    model: string
    least: number
    most: number
    given: readonly string[]
    missing: readonly string[]
  }>(
    ({ prefix, model, least, most, given, missing }) => {
      const quoted = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(',')
      // When nothing is missing, Triton's list lacks its opening bracket. Clients may match on this text.
      const missingText = missing.length === 0 ? ']' : `[${quoted(missing)}]`
      const expected = least === most ? `${most} inputs` : `number of inputs between ${least} and ${most}`
      return (
        `${prefix}expected ${expected} but got ${given.length} inputs for model '${model}'. Got input(s) [${quoted(unorderedMapOrder(given))}], ` +
        `but missing required input(s) ${missingText}. Please provide all required input(s).`
      )
    },
    ({ prefix, model, least, most, given, missing }, call) => {
      const expected = least === most ? `${most} inputs` : `number of inputs between ${least} and ${most}`
      const lists = [`got ${listed(given, (name) => `'${name}'`) || 'none'}`]
      if (missing.length > 0) lists.push(`missing ${listed(missing, (name) => `'${name}'`)}`)
      return `${ownPrefix(prefix)}expected ${expected} but got ${given.length} inputs for model '${model}': ${lists.join('; ')}.${expectedInputs(call)}`
    },
  ),
  batchTooLarge: mistake<{
    prefix: string
    model: string
    most: number
    batchSize: number
    shapes: readonly [string, Shape][]
  }>(
    ({ prefix, model, most }) => `${prefix}inference request batch-size must be <= ${most} for '${model}'`,
    ({ prefix, model, most, batchSize, shapes }, { signature }) => {
      for (const [name, shape] of shapes) {
        const spec = signature?.inputByName.get(name)
        if (spec !== undefined && isRow(shape, spec.dims))
          return ownPrefix(prefix) + missingBatchDimension(name, shape, most)
      }
      return (
        `${ownPrefix(prefix)}inference request batch-size must be <= ${most} for '${model}', got ${batchSize}: send fewer rows, or ` +
        'raise max_batch_size in the configuration of the model'
      )
    },
  ),
  shape: mistake<PrefixedInput & { expected: Shape; got: Shape; isBatching: boolean }>(
    ({ prefix, input, model, expected, got, isBatching }) =>
      `${prefix}unexpected shape for input '${input}' for model '${model}'. Expected ${shapeText(expected)}, got ` +
      `${shapeText(got)}. ${isBatching ? batchNote : ''}`,
    ({ prefix, input, model, expected, got, isBatching }, { signature }) => {
      const start = ownPrefix(prefix)
      if (isBatching && isRow(got, expected.slice(1))) {
        return start + missingBatchDimension(input, got, signature?.maxBatchSize ?? 1)
      }
      const batch = isBatching ? '. The first dimension is the batch size' : ''
      return `${start}unexpected shape for input '${input}' for model '${model}'. Expected ${shapeText(expected)}, got ${shapeText(got)}${batch}.`
    },
  ),
}

/** Finds the model that was meant among those that `isVisible` lets through. */
type FindNear = (isVisible: (model: string) => boolean) => string | null

function nearModel(near: FindNear, { caller }: WordedCall): string {
  if (caller === undefined) return ''
  const { rights } = caller
  const meant = near((model) => rights === null || rights.may('inference', model) || rights.may('metadata', model))
  return meant === null ? '' : `; did you mean '${meant}'?`
}

const unknownModel = ({ name }: { readonly name: string }): string =>
  `Request for unknown model: '${shown(name)}' is not found`
type VersionFacts = { readonly name: string; readonly version: string; readonly offered: readonly string[] }
const unknownVersion = ({ name, version }: VersionFacts): string =>
  `Request for unknown model: '${shown(name)}' version ${version} is not found`

/** A body may name a model with millions of characters, and an answer does not repeat them. */
const shown = (name: string): string => (name.length > longestShownName ? `${name.slice(0, longestShownName)}…` : name)
const longestShownName = 1000

/** What a protocol or the server cannot do. */
const serviceWords = {
  unknownModel: row<{ readonly name: string; readonly near: FindNear }>({
    tritonCode: 'NOT_FOUND',
    triton: unknownModel,
    ownCode: 'NOT_FOUND',
    own: (facts, call) => unknownModel(facts) + nearModel(facts.near, call),
  }),
  unknownVersion: row<VersionFacts>({
    tritonCode: 'NOT_FOUND',
    triton: unknownVersion,
    ownCode: 'NOT_FOUND',
    own: (facts) => {
      const versions = listed(facts.offered, (version) => version)
      return `${unknownVersion(facts)}${versions === '' ? '' : `; it has ${facts.offered.length === 1 ? 'version' : 'the versions'} ${versions}`}`
    },
  }),
  decoupledHttp: row<object>({
    tritonCode: 'UNSUPPORTED',
    triton: () => "HTTP end point doesn't support models with decoupled transaction policy",
    ownCode: 'INVALID_ARG',
    own: (_, { signature }) => {
      const model = signature?.modelName ?? '{model}'
      return (
        `model '${model}' sends any number of responses (decoupled), and this endpoint has one: use POST ` +
        `/v2/models/${model}/generate_stream, or ModelStreamInfer of gRPC.`
      )
    },
  }),
  decoupledGrpc: row<object>({
    tritonCode: 'UNSUPPORTED',
    triton: () => "ModelInfer RPC doesn't support models with decoupled transaction policy",
    ownCode: 'INVALID_ARG',
    own: (_, { signature }) =>
      `model '${signature?.modelName ?? ''}' sends any number of responses (decoupled), and ModelInfer has one: use ModelStreamInfer.`,
  }),
  /** `generate` answers once: a model that gave another number of responses needs the other endpoint. */
  notOneResponse: misread<{ count: number }>(
    () =>
      'generate expects model to produce exactly 1 response, use generate stream for model that generates various number of responses',
    ({ count }, { signature }) => {
      const model = signature?.modelName ?? '{model}'
      return `model '${model}' gave ${count} responses, and generate has exactly one: use POST /v2/models/${model}/generate_stream.`
    },
  ),
  /** No such model, or a configuration in the request that cannot be read. Triton tells the reason in its log only. */
  pollFailed: misread<{ model: string; reason: string }>(
    ({ model }) => `failed to load '${model}', failed to poll from model repository`,
    ({ model, reason }) => `failed to load '${model}', failed to poll from model repository: ${reason.trimEnd()}`,
  ),
  modelControl: row<object>({
    tritonCode: 'UNAVAILABLE',
    triton: () => 'explicit model load / unload is not allowed if polling is enabled',
    ownCode: 'INVALID_ARG',
    own: () =>
      'this server does not load or unload models by request: start it with --model-control-mode=explicit ' +
      '(and --load-model=NAME for each model to load at start)',
  }),
  unsupported: sameText('UNSUPPORTED'),
  sharedMemory: sameText('INTERNAL'),
  /** The client is not at fault, and may try again: another worker comes. */
  workerLost: row<{ triton: string; model: string; instance: string; reason: string }>({
    tritonCode: 'INTERNAL',
    triton: ({ triton }) => triton,
    ownCode: 'UNAVAILABLE',
    own: ({ model, instance, reason }) =>
      `the worker of model '${model}', instance '${instance}', ended while it held this request: ${reason}. It is started again.`,
  }),
}

export const errorWords = { ...bodyWords, ...fitWords, ...serviceWords }

export type ErrorKind = keyof typeof errorWords
export type FactsOf<K extends ErrorKind> = Parameters<(typeof errorWords)[K]['triton']>[0]

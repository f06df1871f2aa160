// A request of TorchServe ⇄ the tensors of a model whose backend is `torchserve`.

import { ServerError } from '../../base/server-error.ts'
import type { InferenceResponse } from '../../model/inference-response.ts'
import { Tensor } from '../../tensor/tensor.ts'
import { bytesElement, bytesElementsInSteps } from '../bytes-element.ts'
import { formFields, type FormField } from '../form-fields.ts'

type TorchRequest = {
  readonly id: string
  /** An object of names and values, as JSON. */
  readonly headers: string
  readonly contentType: string
  readonly body: Buffer
  /** Parameters of the query, where the path passes them on. */
  readonly query: Iterable<readonly [name: string, value: string]>
}

type Field = { readonly name: string; readonly contentType: string; readonly value: Buffer }

/** In steps. `isBatching`: the model's shapes begin with the number of rows. Throws INVALID_ARG. */
export function* torchTensors(request: TorchRequest, isBatching: boolean): Generator<void, Tensor[]> {
  const { body, contentType, query } = request
  const form = yield* formFields(body, contentType)
  const sent = form?.map(fieldOf) ?? [{ name: 'body', contentType: mediaTypeOf(contentType), value: body }]
  const asked = [...query].map(([name, value]) => ({ name, contentType: '', value: Buffer.from(value) }))
  return yield* fieldTensors([...asked, ...sent], request, isBatching)
}

/** As in TorchServe, only files have a type, and a file that says none has the type of any bytes. */
const fieldOf = ({ name, contentType, value, fileName }: FormField): Field => ({
  name,
  contentType: fileName === null ? '' : mediaTypeOf(contentType) || 'application/octet-stream',
  value,
})

/** TorchServe passes the media type on without its parameters. */
const mediaTypeOf = (contentType: string): string => (contentType.split(';', 1)[0] ?? '').trim()

/** The fields as they were sent, in steps. */
export function* fieldTensors(
  fields: readonly Field[],
  { id, headers }: Pick<TorchRequest, 'id' | 'headers'>,
  isBatching: boolean,
): Generator<void, Tensor[]> {
  // The last field of a name counts, as in TorchServe. A header may not take the name of a field.
  const described = JSON.stringify(fields.map((field) => [field.name, field.contentType, field.value.length]))
  const head = `{"id":"${id}","headers":${headers},"fields":${described}}`
  const shape = isBatching ? [1, 1] : [1]
  return [
    new Tensor('data', 'BYTES', shape, yield* bytesElementsInSteps([fields.map(({ value }) => value)])),
    new Tensor('request', 'BYTES', shape, bytesElement([Buffer.from(head)])),
  ]
}

/** The body, and what the handler says of it. */
export type TorchAnswer = { readonly head: AnswerHead; readonly body: Buffer }
type AnswerHead = {
  readonly status: number
  /** '' where the handler set none. */
  readonly contentType: string
  readonly headers: readonly string[]
}

const forbiddenHeaders = new Set(['content-length', 'transfer-encoding', 'connection', 'content-type', 'keep-alive'])
const mostAnswerHeaders = 64
/** Of a head that is kept for the next answer. */
const mostKnownBytes = 1024
let known: { readonly bytes: Buffer; readonly head: AnswerHead } | null = null

/** The body is a view on the output. HOT. */
export function torchAnswer({ outputs }: InferenceResponse): TorchAnswer {
  const bytes = elementOf(outputs, 'response')
  const body = elementOf(outputs, 'prediction')
  // Most handlers say the same each time.
  if (known !== null && known.bytes.equals(bytes)) return { head: known.head, body }
  const head = readHead(JSON.parse(bytes.toString()) as Record<string, unknown>)
  if (bytes.length <= mostKnownBytes) known = { bytes: Buffer.from(bytes), head }
  return { head, body }
}

const readHead = ({ status, contentType, headers }: Record<string, unknown>): AnswerHead => ({
  status: typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599 ? status : 500,
  contentType: typeof contentType === 'string' && isHeaderText(contentType) ? contentType : '',
  headers: Object.entries(headers as Record<string, unknown>)
    .slice(0, mostAnswerHeaders)
    .filter(([name]) => /^[\w!#$%&'*+.^`|~-]+$/.test(name) && !forbiddenHeaders.has(name.toLowerCase()))
    .flatMap(([name, value]) => (isHeaderText(String(value)) ? [name, String(value)] : [])),
})

/** A handler must not be able to write into the head of the answer. */
const isHeaderText = (text: string): boolean => /^[\t\x20-\x7e\x80-\xff]*$/.test(text)

function elementOf(outputs: InferenceResponse['outputs'], name: string): Buffer {
  const bytes = outputs.find((output) => output.name === name)?.bytes
  if (bytes === undefined || bytes.length < 4) {
    throw new ServerError('INTERNAL', `the answer has no output '${name}' with one element`)
  }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  return buffer.subarray(4, 4 + buffer.readUInt32LE(0))
}

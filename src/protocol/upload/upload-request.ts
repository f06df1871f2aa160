// What was uploaded: the files of a form, or the body itself; and what the query asks for.

import { ServerError } from '../../base/server-error.ts'
import { formFields } from '../form-fields.ts'
import { queryOf } from '../query-of.ts'

export type Upload = {
  /** '' where the client does not say. */
  readonly fileName: string
  readonly bytes: Buffer
}

export type UploadRequest = {
  readonly uploads: readonly Upload[]
  /** '' where the form and the query name none. */
  readonly model: string
  /** 0: as the model says. */
  readonly topK: number
}

const mostTopK = 1000
/** Of a field that is no upload. */
const mostFieldBytes = 1024
const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

/** In steps. A field `model` or `top_k` of a form, or of the query, is no upload. Throws INVALID_ARG. */
export function* uploadRequest(body: Buffer, contentType: string, target: string): Generator<void, UploadRequest> {
  const query = queryOf(target)
  let model = query.get('model') ?? ''
  let topK = query.get('top_k') ?? ''
  // curl calls every body urlencoded that it is not told about.
  const isForm = /^\s*multipart\//i.test(contentType)
  const fields = isForm ? yield* formFields(body, contentType) : null
  if (fields === null && isForm) throw invalid(`a form is multipart/form-data, got '${contentType.slice(0, 40)}'`)
  const uploads: Upload[] = []
  const texts: string[] = []
  for (const { name, fileName, contentType: type, value } of fields ?? []) {
    if (/^multipart\//i.test(type)) throw invalid(`the field '${shortened(name)}' of the form is a form itself: send each file in a field of its own`) // prettier-ignore
    if (fileName === null && name === 'model') model = shortText(name, value)
    else if (fileName === null && name === 'top_k') topK = shortText(name, value)
    // A browser sends an empty file without a name where none was chosen.
    else if (fileName !== '' || value.length > 0) {
      uploads.push({ fileName: shortened((fileName ?? '') || name), bytes: value })
      if (fileName === null) texts.push(name)
    }
  }
  if (texts.length > 0 && texts.length < uploads.length) throw invalid(`the form has the field '${shortened(texts[0] as string)}' beside its files: only 'model' and 'top_k' may stand there`) // prettier-ignore
  if (fields === null) uploads.push({ fileName: '', bytes: body })
  if (uploads.every(({ bytes }) => bytes.length === 0)) {
    throw invalid('nothing was uploaded: send a file as the body, or in a field of a multipart form')
  }
  return { uploads, model, topK: readTopK(topK) }
}

function shortText(name: string, value: Buffer): string {
  if (value.length <= mostFieldBytes) return value.toString()
  throw invalid(`the field '${name}' of the form has ${value.length} bytes, at most ${mostFieldBytes} are read`)
}

const shortened = (name: string): string => name.replaceAll(/\p{Cc}/gu, '').slice(0, 255)

function readTopK(text: string): number {
  if (text === '') return 0
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1 && value <= mostTopK) return value
  throw invalid(`top_k must be a whole number from 1 to ${mostTopK}, got '${text.slice(0, 40)}'`)
}

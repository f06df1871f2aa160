// The command that gets a first answer from a model, made from what the model takes. Pure.

import { shellQuoted } from '../base/shell-quoted.ts'
import { elementBytes, isDataType, type DataType } from '../tensor/data-type.ts'
import { elementCount } from '../tensor/shape.ts'

type AskedInput = { readonly name: string; readonly datatype: string; readonly shape: readonly number[] }

/** More numbers than this are not written out: the command sends zeros. */
const writtenElements = 32

const jsonless = new Set<DataType>(['FP16', 'BF16'])

/** `inputs` with whole shapes, as the metadata of a model has them. Open dimensions become 1. */
export function askCommand(url: string, model: string, inputs: readonly AskedInput[]): string {
  const target = `${url}/v2/models/${pathPart(model)}`
  if (inputs.length === 0 || !inputs.every(({ datatype }) => isDataType(datatype))) return `curl ${target}`
  let zeroBytes = 0
  const asked = inputs.map(({ name, datatype, shape }) => {
    const type = datatype as DataType
    const sizes = shape.map((size) => Math.max(1, size))
    const count = elementCount(sizes)
    const head = { name, datatype, shape: sizes }
    if (type === 'BYTES' || (count <= writtenElements && !jsonless.has(type))) {
      const value = type === 'BYTES' ? 'text' : type === 'BOOL' ? true : 1
      return { ...head, data: Array.from({ length: count }, () => value) }
    }
    const bytes = count * elementBytes[type]
    zeroBytes += bytes
    return { ...head, parameters: { binary_data_size: bytes } }
  })
  const body = JSON.stringify({ inputs: asked })
  if (zeroBytes === 0) return `curl ${target}/infer -d ${shellQuoted(body)}`
  return [
    `(printf %s ${shellQuoted(body)}; head -c ${zeroBytes} /dev/zero) |`,
    `curl ${target}/infer -H 'Inference-Header-Content-Length: ${Buffer.byteLength(body)}' --data-binary @-`,
  ].join(' ')
}

/** Also without the characters that mean something to a shell. */
export const pathPart = (name: string): string =>
  encodeURIComponent(name).replaceAll(/[!'()*~]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

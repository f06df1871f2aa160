// The call that the playground makes, for a terminal, two languages and gRPC. Pure functions.

type SnippetInput = {
  readonly name: string
  readonly dataType: string
  readonly shape: readonly number[]
  /** JSON values; null where the bytes are in a file. */
  readonly values: readonly (number | boolean | string)[] | null
}

export type SnippetCall = {
  readonly origin: string
  readonly model: string
  /** '' for the version that the server chooses. */
  readonly version: string
  readonly inputs: readonly SnippetInput[]
  readonly isDecoupled: boolean
  /** The server asks for a key. A snippet reads it from the variable KEY: it is to be shared, and the key is not. */
  readonly hasKey: boolean
}

/** An option of curl and of grpcurl, which take it alike. */
export const keyOption = (hasKey: boolean): string => (hasKey ? ' -H "x-api-key: $KEY"' : '')

const mostValues = 256

const pathOf = ({ model, version }: SnippetCall): string =>
  `/v2/models/${encodeURIComponent(model)}${version === '' ? '' : `/versions/${version}`}`

const valuesText = ({ values, shape }: SnippetInput): string => {
  if (values === null) return '[]'
  const short = values
    .slice(0, mostValues)
    .map((value) => (typeof value === 'number' ? Number(value.toPrecision(6)) : value))
  return `${JSON.stringify(short).slice(0, -1)}${values.length > mostValues ? `, … ${shape.join('×')} values` : ''}]`
}

/** In single quotes of a shell. */
export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export function curlSnippet(call: SnippetCall): string {
  const path = `${call.origin}${pathOf(call)}`
  if (call.isDecoupled) {
    const body = `{${call.inputs.map((input) => `${JSON.stringify(input.name)}: ${valueOrList(input)}`).join(', ')}}`
    return `curl -N ${quoted(`${path}/generate_stream`)}${keyOption(call.hasKey)} -d ${quoted(body)}`
  }
  const inputs = call.inputs.map(
    (input) =>
      `  {"name": ${JSON.stringify(input.name)}, "shape": [${input.shape.join(', ')}], "datatype": "${input.dataType}", "data": ${valuesText(input)}}`,
  )
  return `curl ${quoted(`${path}/infer`)}${keyOption(call.hasKey)} -d ${quoted(`{"inputs": [\n${inputs.join(',\n')}\n]}`)}`
}

const valueOrList = (input: SnippetInput): string =>
  input.values?.length === 1 ? JSON.stringify(input.values[0]) : valuesText(input)

const numpyTypes: Readonly<Record<string, string>> = {
  BOOL: 'bool',
  BYTES: 'object_',
  FP16: 'float16',
  FP32: 'float32',
  FP64: 'float64',
}

const numpyType = (dataType: string): string => `np.${numpyTypes[dataType] ?? dataType.toLowerCase()}`

const pythonValues = (input: SnippetInput): string =>
  valuesText(input)
    .replaceAll(/\btrue\b/g, 'True')
    .replaceAll(/\bfalse\b/g, 'False')

export function pythonSnippet(call: SnippetCall): string {
  const host = call.origin.replace(/^https?:\/\//, '')
  const version = call.version === '' ? '' : `, model_version=${JSON.stringify(call.version)}`
  const lines = call.inputs.flatMap((input, i) => [
    `input_${i} = httpclient.InferInput(${JSON.stringify(input.name)}, [${input.shape.join(', ')}], "${input.dataType}")`,
    `input_${i}.set_data_from_numpy(np.array(${pythonValues(input)}, dtype=${numpyType(input.dataType)}).reshape([${input.shape.join(', ')}]))`,
  ])
  const headers = call.hasKey ? ', headers={"x-api-key": os.environ["KEY"]}' : ''
  return [
    ...(call.hasKey ? ['import os', ''] : []),
    'import numpy as np',
    'import tritonclient.http as httpclient',
    '',
    `client = httpclient.InferenceServerClient("${host}"${call.origin.startsWith('https') ? ', ssl=True' : ''})`,
    ...lines,
    `answer = client.infer(${JSON.stringify(call.model)}, [${call.inputs.map((_, i) => `input_${i}`).join(', ')}]${version}${headers})`,
    'for output in answer.get_response()["outputs"]:',
    '    print(output["name"], answer.as_numpy(output["name"]))',
  ].join('\n')
}

export function typescriptSnippet(call: SnippetCall): string {
  const version = call.version === '' ? '' : `, { version: ${JSON.stringify(call.version)} }`
  const head = [
    `import { createHttpClient } from 'galatea/client'`,
    '',
    `const client = createHttpClient({ url: '${call.origin}'${call.hasKey ? ", headers: { 'x-api-key': process.env.KEY! }" : ''} })`,
  ]
  if (call.isDecoupled) {
    const fields = call.inputs.map((input) => `${JSON.stringify(input.name)}: ${valueOrList(input)}`).join(', ')
    return [
      ...head,
      `for await (const piece of client.generateStream(${JSON.stringify(call.model)}, { ${fields} }${version})) console.log(piece)`,
    ].join('\n')
  }
  const inputs = call.inputs.map((input) => {
    const type = input.dataType === 'BYTES' ? '' : `, dataType: '${input.dataType}'`
    return `  ${JSON.stringify(input.name)}: { data: ${valuesText(input)}, shape: [${input.shape.join(', ')}]${type} },`
  })
  return [
    ...head,
    `const answer = await client.infer(${JSON.stringify(call.model)}, {`,
    ...inputs,
    `}${version})`,
    'for (const output of answer.outputs) console.log(output.name, output.data)',
  ].join('\n')
}

/** The typed lists of InferTensorContents. Other types travel as raw bytes only. */
const contentsOf: Readonly<Record<string, string>> = {
  BOOL: 'bool_contents',
  INT8: 'int_contents',
  INT16: 'int_contents',
  INT32: 'int_contents',
  INT64: 'int64_contents',
  UINT8: 'uint_contents',
  UINT16: 'uint_contents',
  UINT32: 'uint_contents',
  UINT64: 'uint64_contents',
  FP32: 'fp32_contents',
  FP64: 'fp64_contents',
  BYTES: 'bytes_contents',
}

const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)))

/** For grpcurl, which asks the server how its messages look. */
export function grpcSnippet(call: SnippetCall): string {
  const inputs = call.inputs.map((input) => {
    const list = contentsOf[input.dataType]
    const encoded = input.values?.map((value) => (typeof value === 'string' ? base64(value) : value)) ?? null
    const contents = list === undefined ? '' : `, "contents": {"${list}": ${valuesText({ ...input, values: encoded })}}`
    return `  {"name": ${JSON.stringify(input.name)}, "shape": [${input.shape.join(', ')}], "datatype": "${input.dataType}"${contents}}`
  })
  const isRaw = call.inputs.some(({ dataType }) => contentsOf[dataType] === undefined)
  const raw = isRaw ? ',\n"raw_input_contents": ["base64 of the bytes of each input"]' : ''
  const version = call.version === '' ? '' : `, "model_version": ${JSON.stringify(call.version)}`
  const body = `{"model_name": ${JSON.stringify(call.model)}${version}, "inputs": [\n${inputs.join(',\n')}\n]${raw}}`
  const { protocol, hostname } = new URL(call.origin)
  const method = call.isDecoupled ? 'ModelStreamInfer' : 'ModelInfer'
  const security = protocol === 'https:' ? '' : '-plaintext '
  return `# 8001 is the port of gRPC unless --grpc-port says otherwise\ngrpcurl${keyOption(call.hasKey)} ${security}-d ${quoted(body)} ${hostname}:8001 inference.GRPCInferenceService/${method}`
}

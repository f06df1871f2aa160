// Whole HTTP requests as bytes, ready to be sent again and again.

export type InferForm = 'binary' | 'json'

type RequestTensor = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly values: Int32Array | Float32Array
}

/** Inputs in the given form; the answer comes as binary data unless it, too, is asked for as JSON. */
export const inferRequest = (
  model: string,
  inputs: readonly RequestTensor[],
  form: InferForm,
  answerForm: InferForm = form,
  id = '',
  timeoutUs = 0,
): Buffer => {
  const named = id === '' ? {} : { id }
  const wishes = {
    ...(answerForm === 'binary' ? { binary_data_output: true } : {}),
    ...(timeoutUs === 0 ? {} : { timeout: timeoutUs }),
  }
  const parameters = Object.keys(wishes).length === 0 ? {} : { parameters: wishes }
  if (form === 'json') {
    const tensors = inputs.map(({ values, ...tensor }) => ({ ...tensor, data: Array.from(values) }))
    return post(model, '', Buffer.from(JSON.stringify({ ...named, inputs: tensors, ...parameters })))
  }
  const tensors = inputs.map(({ values, ...tensor }) => ({
    ...tensor,
    parameters: { binary_data_size: values.byteLength },
  }))
  const json = Buffer.from(JSON.stringify({ ...named, inputs: tensors, ...parameters }))
  const bytes = inputs.map(({ values }) => Buffer.from(values.buffer, values.byteOffset, values.byteLength))
  return post(model, `Inference-Header-Content-Length: ${json.length}\r\n`, Buffer.concat([json, ...bytes]))
}

export const post = (model: string, headers: string, body: Buffer): Buffer => {
  const head =
    `POST /v2/models/${model}/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n` +
    `Content-Type: application/octet-stream\r\n${headers}Content-Length: ${body.length}\r\n\r\n`
  return Buffer.concat([Buffer.from(head, 'latin1'), body])
}

/** Triton's `simple`: two rows of 16 INT32. */
export const simpleRequest = (form: InferForm, id = ''): Buffer => {
  const tensor = (name: string, values: Int32Array): RequestTensor => ({
    name,
    datatype: 'INT32',
    shape: [1, 16],
    values,
  })
  const counting = Int32Array.from({ length: 16 }, (_, index) => index)
  return inferRequest(
    'simple',
    [tensor('INPUT0', counting), tensor('INPUT1', new Int32Array(16).fill(1))],
    form,
    form,
    id,
  )
}

/** identity_fp32 with so many numbers, none of them short in decimal. */
export const identityRequest = (elements: number, form: InferForm, answerForm: InferForm = form): Buffer => {
  const values = Float32Array.from({ length: elements }, (_, index) => Math.sin(index) * 1000)
  const input = { name: 'INPUT0', datatype: 'FP32', shape: [1, elements], values }
  return inferRequest('identity_fp32', [input], form, answerForm)
}

/** The Python example add_sub, or a model like it, with so many numbers in each of its two inputs. */
export const addSubRequest = (model: string, elements: number): Buffer => {
  const values = Float32Array.from({ length: elements }, (_, index) => index)
  const tensor = (name: string): RequestTensor => ({ name, datatype: 'FP32', shape: [elements], values })
  return inferRequest(model, [tensor('INPUT0'), tensor('INPUT1')], 'binary')
}

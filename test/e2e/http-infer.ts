// One inference over HTTP, the way any client would: JSON out, JSON back.

export type JsonTensor = {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  readonly data: readonly (number | string | boolean)[]
}

export type InferAnswer = {
  readonly status: number
  readonly outputs: readonly JsonTensor[]
  /** '' when there is none. */
  readonly error: string
}

export const httpInfer = async (
  url: string,
  model: string,
  inputs: readonly JsonTensor[],
  outputs: readonly { readonly name: string; readonly parameters: Readonly<Record<string, unknown>> }[] = [],
): Promise<InferAnswer> => {
  const body = JSON.stringify(outputs.length === 0 ? { inputs } : { inputs, outputs })
  const response = await fetch(`${url}/v2/models/${model}/infer`, { method: 'POST', body })
  const answer = (await response.json()) as { readonly outputs?: readonly JsonTensor[]; readonly error?: string }
  return { status: response.status, outputs: answer.outputs ?? [], error: answer.error ?? '' }
}

// What `galatea check` can say about the model.json of a vLLM model without vLLM.

import { readFile } from 'node:fs/promises'
import { messageOf } from '../base/server-error.ts'
import type { FileProblem } from '../model/file-problem.ts'

const example = '{"model": "facebook/opt-125m", "gpu_memory_utilization": 0.5}'

/** Arguments that vLLM takes of one kind only. Others are vLLM's own matter: they differ between its versions. */
const kinds: Readonly<Record<string, 'string' | 'number' | 'boolean'>> = {
  model: 'string',
  tokenizer: 'string',
  dtype: 'string',
  quantization: 'string',
  revision: 'string',
  max_num_seqs: 'number',
  max_num_batched_tokens: 'number',
  gpu_memory_utilization: 'number',
  tensor_parallel_size: 'number',
  pipeline_parallel_size: 'number',
  seed: 'number',
  enforce_eager: 'boolean',
  trust_remote_code: 'boolean',
  enable_prefix_caching: 'boolean',
  enable_lora: 'boolean',
}

export async function vllmProblems(file: string): Promise<FileProblem[]> {
  const problem = (message: string, fix = ''): FileProblem => ({ file, line: null, column: null, message, fix })
  let given: unknown
  try {
    given = JSON.parse(await readFile(file, 'utf8'))
  } catch (reason) {
    return [problem(`it must hold the arguments of vLLM's engine as JSON: ${messageOf(reason)}`, `write ${example}`)]
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    return [problem("it must hold the arguments of vLLM's engine as one JSON object", `write ${example}`)]
  }
  const arguments_ = given as Record<string, unknown>
  if (arguments_['model'] === undefined) {
    return [problem("it has no 'model', the name or the folder of the model that vLLM loads", `write ${example}`)]
  }
  return Object.entries(arguments_).flatMap(([name, value]) => {
    const kind = kinds[name]
    if (kind === undefined || value === null || typeof value === kind) return []
    return [problem(`'${name}' must be a ${kind}, got ${JSON.stringify(value).slice(0, 60)}`)]
  })
}

// Reads the weights of a GGUF file into memory, as they are or in another form. llama.cpp has kernels that compute many tokens together
// for some forms only: with others, such as Q4_1, every token costs as much as a token alone.

import { rmSync } from 'node:fs'
import { ServerError } from '../../../base/server-error.ts'
import type { EngineTask } from '../engine-protocol.ts'
import type { LlamaLibrary } from './llama-library.ts'

/** The library's numbers of forms. */
const forms = { q8_0: 7, bf16: 32 } as const
/** The file is read into memory, not mapped: it is removed. */
const readAll = 0

/** The address of the model; 0: the library could not load it. */
export function loadWeights(
  library: LlamaLibrary,
  { modelPath, rewrittenPath, settings: { weights, threads } }: EngineTask,
  params: Readonly<Record<string, unknown>>,
): number {
  if (weights === 'file' || rewrittenPath === null) return library.loadModel(modelPath, params)
  const changed = { nthread: threads, ftype: forms[weights], allow_requantize: true }
  const code = library.rewriteModel(modelPath, rewrittenPath, { ...library.rewriteDefaults(), ...changed })
  if (code !== 0) {
    const text = `llama.cpp could not write the weights as '${weights}' to '${rewrittenPath}': there may be too little room; set TMPDIR to a larger folder, or leave the parameter 'weights' out`
    throw new ServerError('UNAVAILABLE', text)
  }
  const model = library.loadModel(rewrittenPath, { ...params, load_mode: readAll })
  rmSync(rewrittenPath)
  return model
}

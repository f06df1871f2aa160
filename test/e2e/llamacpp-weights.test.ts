// A GGUF model whose weights are computed with in another form than that of its file.

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import type { LlamaLibrary } from '../../src/backends/llamacpp/engine/llama-library.ts'
import { until } from '../until.ts'
import { chatPrompt, openedLibrary, placeModel, plainAnswers, smolFile } from './language-model.ts'
import { startServerProcess } from './server-process.ts'

const length = 8
const questions = ['Write one sentence about the sea.', 'What is Paris?', 'Name three facts about bread.']
/** A smaller lead may turn with the number of threads and the size of a step. */
const roundingGap = 0.3

/** The values of the parameter, and llama.cpp's numbers of them. */
const forms = new Map([['q8_0', 7], ['bf16', 32]]) // prettier-ignore

type Shown = { readonly id: number; readonly logprob: number; readonly token: string }

describe('a GGUF model with weights in another form', () => {
  test('says what llama.cpp says with the file in this form, and leaves no file behind', async () => {
    const root = mkdtempSync(path.join(tmpdir(), 'galatea-weights-test-'))
    const scratch = path.join(root, 'scratch')
    mkdirSync(scratch)
    try {
      const file = await smolFile()
      const place = (name: string, lines: string): void => {
        const threads = 'parameters { key: "n_threads" value { string_value: "1" } }'
        writeFileSync(path.join(placeModel(file, path.join(root, 'models'), name), 'config.pbtxt'), threads + lines)
      }
      place('plain', '')
      for (const name of forms.keys()) place(name, `parameters { key: "weights" value { string_value: "${name}" } }`)
      await using server = await startServerProcess([`--model-repository=${path.join(root, 'models')}`], {
        environment: { TMPDIR: scratch },
      })
      for (const name of ['plain', ...forms.keys()])
        await until(async () => (await fetch(`${server.url}/v2/models/${name}/ready`)).ok, 'the models are in memory')
      assert.deepEqual(readdirSync(scratch).filter((name) => name.startsWith('galatea-weights-')), []) // prettier-ignore

      const prompts = questions.map((question) => chatPrompt(question))
      const library = openedLibrary()
      const ask = async (model: string, prompt: string): Promise<Shown[]> => {
        const sampling_parameters = JSON.stringify({
          temperature: 0,
          max_tokens: length,
          ignore_eos: true,
          logprobs: 0,
        })
        const body = JSON.stringify({ text_input: prompt, sampling_parameters, return_logprobs: true })
        const response = await fetch(`${server.url}/v2/models/${model}/generate`, { method: 'POST', body })
        return JSON.parse(((await response.json()) as { logprobs: string }).logprobs) as Shown[]
      }
      for (const [name, form] of forms) {
        const expected = plainAnswers(library, rewritten(library, file, root, form), prompts, length)
        for (const [i, prompt] of prompts.entries()) {
          const said = await ask(name, prompt)
          const differs = expected[i]?.findIndex(({ text }, at) => said[at]?.token !== text) ?? -1
          assert.ok(
            differs < 0 || (expected[i]?.[differs]?.gap ?? 1) < roundingGap,
            `${name} ${i} differs at ${differs}`,
          )
          const asInFile = await ask('plain', prompt)
          assert.notEqual(said[0]?.logprob, asInFile[0]?.logprob, 'the weights are not those of the file')
        }
      }
    } finally {
      rmSync(root, { recursive: true })
    }
  })
})

function rewritten(library: LlamaLibrary, file: string, folder: string, ftype: number): string {
  const to = path.join(folder, `${ftype}.gguf`)
  const params = { ...library.rewriteDefaults(), ftype, allow_requantize: true, nthread: 1 }
  assert.equal(library.rewriteModel(file, to, params), 0)
  return to
}

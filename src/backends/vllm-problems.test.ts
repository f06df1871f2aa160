import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { vllmProblems } from './vllm-problems.ts'

test('a model.json that vLLM cannot take is told before vLLM is there', async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'galatea-vllm-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'model.json')
  const cases: [text: string, expected: RegExp | null][] = [
    ['{"model": "opt", "max_model_len": 512, "a_new_argument": [1]}', null],
    ['{"model": ', /must hold the arguments of vLLM's engine as JSON/],
    ['["opt"]', /one JSON object/],
    ['{"dtype": "auto"}', /has no 'model'/],
    ['{"model": "opt", "gpu_memory_utilization": "half"}', /'gpu_memory_utilization' must be a number, got "half"/],
  ]
  for (const [text, expected] of cases) {
    writeFileSync(file, text)
    const said = (await vllmProblems(file)).map(({ message }) => message).join()
    if (expected === null) assert.equal(said, '')
    else assert.match(said, expected)
  }
})

// What processes of models know of the server's environment.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HttpClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { testPython, textConfig, textModel } from './python-models-under-test.ts'
import { startServerProcess } from './server-process.ts'

const inPython = textModel(
  'def execute(self, requests):\n    return [answer(" ".join(f"{n}={os.environ.get(n)}" for n in ("CLOUD_SECRET", "PASSED", "SET"))) for _ in requests]',
)
const inTypeScript = `
import { fromStrings } from 'galatea/model'
export const config = {
  input: [{ name: 'IN', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'OUT', dataType: 'BYTES', dims: [1] }],
}
export function infer() {
  const told = ['CLOUD_SECRET', 'PASSED', 'SET'].map((name) => name + '=' + (process.env[name] ?? 'None'))
  return [fromStrings('OUT', [1], [told.join(' ')])]
}
`
const isolated = 'backend: "typescript" parameters { key: "isolation" value { string_value: "process" } }'

test('processes of models get no secrets of the server, but what --python-env names', async () => {
  const repository = await temporaryRepository({
    'p/config.pbtxt': textConfig,
    'p/1/model.py': inPython,
    't/config.pbtxt': isolated,
    't/1/model.ts': inTypeScript,
  })
  const flags = [`--model-repository=${repository.root}`, `--backend-config=python,interpreter=${testPython}`]
  const environment = { CLOUD_SECRET: 'hush', PASSED: 'yes' }
  const told = async (...more: string[]): Promise<unknown[]> => {
    await using server = await startServerProcess([...flags, ...more], { environment })
    const client = new HttpClient({ url: `http://127.0.0.1:${server.port}` })
    const answers = []
    for (const model of ['p', 't']) {
      const { inputs } = await client.modelMetadata(model)
      const { outputs } = await client.infer(model, { [inputs[0]?.name ?? '']: ['x'] })
      answers.push(outputs[0]?.strings()[0])
    }
    await client.close()
    return answers
  }
  const twice = (text: string): string[] => [text, text]
  assert.deepEqual(await told(), twice('CLOUD_SECRET=None PASSED=None SET=None'))
  assert.deepEqual(await told('--python-env=PASSED', '--python-env=SET=1'), twice('CLOUD_SECRET=None PASSED=yes SET=1'))
  assert.deepEqual(
    await told('--triton-defaults', '--http-address=127.0.0.1'),
    twice('CLOUD_SECRET=hush PASSED=yes SET=None'),
  )
  await repository.remove()
})

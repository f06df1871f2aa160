// A model.ts lies in somebody's project: what that project's package.json says must not matter.

import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { ask, executeOne, int32Tensor, int32Values } from '../backend.contract.ts'
import { folderOf, int32Config, ScriptUnderTest } from '../script-under-test.contract.ts'
import { TypeScriptBackend } from './typescript-backend.ts'

type Files = Readonly<Record<string, string>>

/** What the model answers to 5. */
async function answerOf(
  context: TestContext,
  files: Files,
  isolation = 'thread',
): Promise<{ values: number[]; warnings: string[] }> {
  const directory = await folderOf(context, files)
  const log = new MemoryLog()
  const backend = new TypeScriptBackend({ clock: new SystemClock(), log })
  const config = int32Config()
  config.parameters.set('isolation', { stringValue: isolation })
  const script = await ScriptUnderTest.of(context, backend, config, directory, log)
  const { outputs } = await executeOne(script.instance, ask([int32Tensor('IN', [5])]))
  const warnings = log.entries.filter(({ level }) => level !== 'verbose').map(({ message }) => message)
  return { values: int32Values(outputs[0]), warnings }
}

const model = `
import { tensor } from 'galatea/model'
import { twice } from './helper'
export const infer = (request: any) => [tensor('OUT', 'INT32', [1], [twice(request.input('IN').asInt32()[0])])]
`
const helper = 'export const twice = (x: number): number => 2 * x\n'

test('a model.ts is an ES module, and so are its files, whatever the nearest package.json says', async (context) => {
  for (const manifest of ['{"type":"commonjs"}', '{}', '{"type":"module"}', '']) {
    for (const isolation of ['thread', 'process']) {
      const project: Files = manifest === '' ? {} : { 'package.json': manifest }
      const files = { ...project, '1/model.ts': model, '1/helper.ts': helper }
      assert.deepEqual(await answerOf(context, files, isolation), { values: [10], warnings: [] }, manifest)
    }
  }
})

test('an import may leave out the extension, name the compiled file, or name a folder', async (context) => {
  const importing = (specifier: string): string => model.replace('./helper', specifier)
  for (const [specifier, file] of [
    ['./helper.ts', '1/helper.ts'],
    ['./helper.js', '1/helper.ts'],
    ['../shared', 'shared.mts'],
    ['../shared', 'shared/index.ts'],
    ['../shared/', 'shared/index.ts'],
    ['./helper', '1/helper.js'],
  ] as const) {
    const text = file.endsWith('.js') ? helper.replaceAll(': number', '') : helper
    const files = { 'package.json': '{"type":"commonjs"}', '1/model.ts': importing(specifier), [file]: text }
    assert.deepEqual((await answerOf(context, files)).values, [10], `${specifier} → ${file}`)
  }
})

test('CommonJS goes on working where it is written', async (context) => {
  const files = {
    'package.json': '{"type":"commonjs"}',
    '1/model.js': `const { twice } = require('./helper')\nexports.infer = (request) => [request.input('IN').with({ name: 'OUT' })]; twice(1)`,
    '1/helper.js': 'module.exports = { twice: (x) => 2 * x }',
  }
  assert.deepEqual((await answerOf(context, files)).values, [5])
})

test('what cannot run says how to write it', async (context) => {
  const refusal = async (source: string): Promise<string> =>
    answerOf(context, { '1/model.ts': source }).then(
      () => 'loaded',
      (reason: unknown) => (reason as Error).message,
    )
  const text = await refusal('enum Colour { Red }\nexport const infer = () => [Colour.Red]')
  assert.match(text, /enum is not supported.*model\.ts:1\); write `const Colour = \{ Red: 0, Green: 1 \} as const`/)
  const field = 'class A { constructor(private x: number) {} }\nexport const infer = () => [new A(1)]'
  assert.match(await refusal(field), /declare the field in the class and assign it in the constructor/)
  const missing = "import { a } from './nowhere'\nexport const infer = () => a"
  assert.match(await refusal(missing), /names a file that is not there, neither as written nor with \.ts/)
  const absent = "import a from 'no-such-package'\nexport const infer = () => a"
  assert.match(await refusal(absent), /run 'npm install no-such-package' in the model's folder/)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backendSettingMistakes } from './backend-setting-mistakes.ts'

const mistakes = (settings: Record<string, Record<string, string>>, present: readonly string[] = []): string[] =>
  backendSettingMistakes(
    new Map(Object.entries(settings).map(([name, values]) => [name, new Map(Object.entries(values))])),
    (name) => present.includes(name),
  )

test('a setting that nobody reads because a letter is wrong is told with the right one', () => {
  assert.deepEqual(
    mistakes({
      python: { interpeter: '/opt/python' },
      onnx: { 'max-threads': '2' },
      '': { 'default-max-batchsize': '8' },
    }),
    [
      "--backend-config=python,interpeter: nothing reads 'interpeter'; did you mean 'interpreter'?",
      "--backend-config=onnx,…: there is no backend 'onnx'; did you mean 'onnxruntime'?",
      "--backend-config=default-max-batchsize: nothing reads 'default-max-batchsize'; did you mean 'default-max-batch-size'?",
    ],
  )
})

test('settings that a backend may know, and backends of the operator, are not told', () => {
  const own = {
    python: { interpreter: 'p' },
    pythen: { a: 'b' },
    acme: { interpeter: 'x' },
    tensorflow: { 'tf-version': '2' },
  }
  assert.deepEqual(mistakes(own, ['pythen']), [])
})

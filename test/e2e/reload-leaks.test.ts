// What stays behind after a Python model was loaded again and again: memory after a collection, descriptors, threads.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { PythonModels, textConfig, textModel } from './python-models-under-test.ts'
import { until } from '../until.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Finalisers run between two collections, and free what they stood for. */
async function heldBytes(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

const countIn = (folder: string): number => fs.readdirSync(folder).length

test('thirty reloads of a Python model leave nothing behind', async (context) => {
  const code = textModel('def execute(self, requests):\n    return [answer("fine") for _ in requests]')
  const models = await PythonModels.load({ m: { code, config: textConfig } })
  context.after(() => models.close())
  const reload = async (times: number): Promise<void> => {
    for (let i = 0; i < times; i++) {
      fs.appendFileSync(path.join(models.folder, 'm/1/model.py'), `# ${i}\n`)
      await models.engine.load('m')
      models.log.entries.length = 0
    }
  }
  await reload(5)
  const [bytes, descriptors, threads] = [await heldBytes(), countIn('/proc/self/fd'), countIn('/proc/self/task')]
  await reload(30)
  // The old worker leaves in the background.
  await until(() => countIn('/proc/self/fd') <= descriptors, `${descriptors} descriptors`)
  const grownBytes = (await heldBytes()) - bytes
  context.diagnostic(`${Math.round(grownBytes / 30 / 1024)} KiB per reload`)
  // 40 KiB for each of 200 reloads are 8 MiB.
  assert.ok(grownBytes < 30 * 40 * 1024, `${grownBytes} bytes more are held`)
  assert.ok(countIn('/proc/self/task') <= threads)
})

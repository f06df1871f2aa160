// The pictures of docs/guide/console.md, taken from a real server by a real browser: `npx node scripts/console-screenshots.ts`.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { openBrowser } from '../test/e2e/browser.ts'
import { exampleModels, projectRoot, startServerProcess } from '../test/e2e/server-process.ts'
import { temporaryRepository } from '../test/fixtures/temporary-repository.ts'
import { until } from '../test/until.ts'

const guide = path.join(projectRoot, 'docs/guide')
/** Doubles a number. The second version cannot take negative ones, and is rolled out all the same. */
const double = (check: string): string => `
import { tensor } from 'galatea/model'
export const config = {
  input: [{ name: 'X', dataType: 'INT32', dims: [1] }],
  output: [{ name: 'Y', dataType: 'INT32', dims: [1] }],
}
export function infer(request) {
  const [value] = request.input('X').asInt32()
  ${check}
  return [tensor('Y', 'INT32', [1], [value * 2])]
}
`
const more = await temporaryRepository({
  'double/config.pbtxt': 'backend: "typescript"\n',
  'double/1/model.js': double(''),
})
const server = await startServerProcess([
  `--model-repository=${exampleModels}`,
  `--model-repository=${more.root}`,
  `--state-dir=${path.join(more.root, '.state')}`,
  '--model-control-mode=explicit',
  '--load-model=*',
])
const browser = await openBrowser()
try {
  const page = await browser.context.newPage()
  await page.setViewportSize({ width: 1200, height: 820 })
  const body = JSON.stringify({ inputs: [{ name: 'pixels', shape: [1, 64], datatype: 'FP32', data: Array.from({ length: 64 }, () => 1) }] }) // prettier-ignore
  const send = (): Promise<unknown> => fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', body })
  // The first requests of a model take longer than all others.
  for (let i = 0; i < 200; i++) await send()
  await page.goto(`${server.url}/console`)
  const started = performance.now()
  await until(async () => {
    await Promise.all(Array.from({ length: 1 + Math.floor(Math.random() * 8) }, send))
    return performance.now() - started > 20_000
  }, 'some traffic')
  await page.screenshot({ path: path.join(guide, 'console-overview.png') })
  await page.goto(`${server.url}/console#/playground/digits`)
  const pad = page.locator('canvas.pad')
  await pad.waitFor()
  const { x = 0, y = 0 } = (await pad.boundingBox()) ?? {}
  await page.mouse.move(x + 60, y + 50)
  await page.mouse.down()
  for (const [toX, toY] of [[170, 50], [150, 100], [120, 190]] as const) await page.mouse.move(x + toX, y + toY, { steps: 12 }) // prettier-ignore
  await page.mouse.up()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await page.locator('.bars').waitFor()
  await page.screenshot({ path: path.join(guide, 'console-playground.png') })
  await mkdir(path.join(more.root, 'double/2'))
  await writeFile(path.join(more.root, 'double/2/model.js'), double("if (value < 0) throw new Error('no negative numbers')")) // prettier-ignore
  const rollout = JSON.stringify({ model: 'double', candidate: 2, steps: [{ weight: 5, for: '10m' }, { weight: 50, for: '10m' }] }) // prettier-ignore
  await fetch(`${server.url}/v2/rollouts`, { method: 'POST', body: rollout })
  await page.goto(`${server.url}/console#/rollouts/double-2`)
  await until(async () => {
    const ask = (value: number): Promise<unknown> => fetch(`${server.url}/v2/models/double/infer`, { method: 'POST', body: JSON.stringify({ inputs: [{ name: 'X', shape: [1], datatype: 'INT32', data: [value] }] }) }) // prettier-ignore
    await Promise.all([1, 2, -1].map(ask))
    return (await page.locator('main').innerText()).includes('rolled back')
  }, 'a rollback')
  await page.setViewportSize({ width: 1200, height: 760 })
  await page.screenshot({ path: path.join(guide, 'console-rollout.png') })
} finally {
  await browser.close()
  await server.stop()
  await more.remove()
}

// The pictures of docs/guide/console.md, taken from a real server by a real browser: `node scripts/console-screenshots.ts`.

import path from 'node:path'
import { openBrowser } from '../test/e2e/browser.ts'
import { exampleModels, projectRoot, startServerProcess } from '../test/e2e/server-process.ts'
import { until } from '../test/until.ts'

const guide = path.join(projectRoot, 'docs/guide')
const server = await startServerProcess([`--model-repository=${exampleModels}`, '--model-control-mode=explicit', '--load-model=*']) // prettier-ignore
const browser = await openBrowser()
try {
  const page = await browser.context.newPage()
  await page.setViewportSize({ width: 1200, height: 820 })
  await page.goto(`${server.url}/console`)
  const body = JSON.stringify({ inputs: [{ name: 'pixels', shape: [1, 64], datatype: 'FP32', data: Array.from({ length: 64 }, () => 1) }] }) // prettier-ignore
  const send = (): Promise<unknown> => fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', body })
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
} finally {
  await browser.close()
  await server.stop()
}

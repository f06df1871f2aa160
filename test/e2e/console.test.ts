// The console in a real browser: each page's story, without an error, a request elsewhere or a breach of its own rules.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { openBrowser } from './browser.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const wordsModel = `
import { fromStrings } from 'galatea/model'
export const config = {
  decoupled: true,
  input: [{ name: 'text_input', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'text_output', dataType: 'BYTES', dims: [1] }],
}
export async function* infer(request) {
  for (const word of request.input('text_input').asStrings()[0].split(' ')) {
    yield [fromStrings('text_output', [1], [word.toUpperCase()])]
  }
}
`
const hostile = '<img src=x onerror=alert(1)>'

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let server: ServerProcess
let browser: Awaited<ReturnType<typeof openBrowser>>
let page: Page
/** What must stay empty. */
const offences: string[] = []

before(async () => {
  repository = await temporaryRepository({
    'words/1/model.ts': wordsModel,
    [`${hostile}/config.pbtxt`]: 'backend: "identity"',
    [`${hostile}/1/model.txt`]: '',
  })
  const flags = [
    '--model-control-mode=explicit',
    '--load-model=digits',
    '--load-model=digit_image',
    '--load-model=words',
  ]
  server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    `--model-repository=${repository.root}`,
    ...flags,
  ])
  browser = await openBrowser('--force-prefers-reduced-motion')
  page = await browser.context.newPage()
  await page.setViewportSize({ width: 1280, height: 900 })
  page.on('console', (message) => {
    // A server that was stopped refuses connections, and browsers say so in the console.
    if (message.type() === 'error' && !message.text().includes('ERR_')) offences.push(message.text())
  })
  page.on('pageerror', (error) => offences.push(error.message))
  page.on('dialog', (dialog) => offences.push(dialog.message()))
  page.on('request', (request) => {
    if (!/^(blob|data):/.test(request.url()) && new URL(request.url()).origin !== server.url)
      offences.push(request.url())
  })
})

after(async () => {
  await browser.close()
  await server.stop()
  await repository.remove()
})

const show = async (hash: string): Promise<void> => {
  await page.goto(`${server.url}/console${hash}`)
  await page.waitForSelector('h1')
}
const textOf = (selector: string): Promise<string> => page.locator(selector).first().innerText()
const seen = (selector: string, words: string): Promise<true> =>
  until(async () => (await textOf(selector)).includes(words), `'${words}' in ${selector}`)

test('a browser that asks for / sees the console, a program gets the answer that it always got', async () => {
  await page.goto(server.url)
  assert.equal(new URL(page.url()).pathname, '/console')
  await seen('h1', 'Overview')
  await seen('section[aria-label="Models by traffic"]', 'digits')
  const plain = await fetch(server.url, { redirect: 'manual' })
  assert.equal(plain.status, 404)
  const { headers } = await fetch(`${server.url}/console`)
  assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'; script-src 'self'/)
  assert.equal(headers.get('x-frame-options'), 'DENY')
  const script = (await (await fetch(`${server.url}/console`)).text()).match(/\/console\/[\w-]+\.js/)?.[0] ?? ''
  const asset = await fetch(server.url + script)
  assert.match(asset.headers.get('cache-control') ?? '', /immutable/)
  assert.ok(Number(asset.headers.get('content-length')) < 120_000, 'gzip')
  assert.equal((await fetch(`${server.url}/console/nothing.js`)).status, 404)
})

test('a model is unloaded and loaded after a question each, and names are text', async () => {
  await show('#/models')
  await page.getByRole('button', { name: 'Unload digit_image' }).click()
  await seen('dialog', 'Requests that come later are refused')
  await page.locator('dialog .danger').click()
  const row = page.locator('tr', { hasText: 'digit_image' })
  await until(async () => (await row.innerText()).includes('not loaded'), 'digit_image is unloaded')
  await page.getByRole('button', { name: 'Load digit_image' }).click()
  await page.locator('dialog .main').click()
  await until(async () => (await row.innerText()).includes('ready'), 'digit_image is ready')
  await seen('tbody', hostile)
})

test('a seven that is drawn is a seven', async () => {
  await show('#/playground/digits')
  const pad = page.locator('canvas.pad')
  await pad.waitFor()
  const { x = 0, y = 0 } = (await pad.boundingBox()) ?? {}
  await page.mouse.move(x + 60, y + 50)
  await page.mouse.down()
  for (const [toX, toY] of [[170, 50], [150, 100], [120, 190]] as const) await page.mouse.move(x + toX, y + toY, { steps: 12 }) // prettier-ignore
  await page.mouse.up()
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await until(async () => (await textOf('.bars .best .bar-name')) === 'seven', 'a seven')
  for (const [language, word] of [
    ['Python', 'tritonclient.http'],
    ['TypeScript', 'createHttpClient'],
  ] as const) {
    await page.getByRole('tab', { name: language }).click()
    await seen('.code pre', word)
  }
})

test('a picture is uploaded, numbers are typed, text streams', async () => {
  await show('#/playground/digit_image')
  await page.locator('fieldset').first().getByText('file', { exact: true }).click()
  await page.setInputFiles('input[type=file]', path.join(projectRoot, 'examples/images/seven.png'))
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await seen('.answer', 'pixels')
  await show('#/playground/words')
  await page.locator('textarea').fill('one two three')
  await page.getByRole('button', { name: 'Run', exact: true }).click()
  await seen('.answer-text', 'ONE TWO THREE')
  await seen('.answer', 'first piece after')
})

test('requests show in figures, charts, statistics and traces', async () => {
  await show('#/traces')
  await page.getByRole('button', { name: /Trace the next/ }).click()
  await seen('[role=status]', 'are traced')
  const body = JSON.stringify({
    inputs: [{ name: 'pixels', shape: [1, 64], datatype: 'FP32', data: Array.from({ length: 64 }, () => 1) }],
  })
  for (let i = 0; i < 5; i++) await fetch(`${server.url}/v2/models/digits/infer`, { method: 'POST', body })
  await seen('.waterfall', 'compute')
  await show('#/models/digits')
  await seen('.tiles', 'Requests per second')
  await page.getByRole('tab', { name: 'Statistics' }).click()
  await seen('[role=tabpanel]', 'compute infer')
  await seen('section[aria-label="What galatea check says"]', 'nothing is wrong')
})

test('the log follows, and what clients put into it is text', async () => {
  await show('#/logs')
  await seen('.log', "successfully loaded 'digits'")
  const load = `${server.url}/v2/repository/models/${encodeURIComponent(hostile)}/load`
  await fetch(load, { method: 'POST' })
  await page.getByLabel('Text').fill('successfully')
  await until(async () => !(await textOf('.log')).includes('Started'), 'only lines that fit')
})

test('/docs describes every call, and tries one', async () => {
  await page.goto(`${server.url}/docs`)
  await seen('h1', 'API')
  await page.getByLabel('Search calls').fill('/v2/models/{model}/ready')
  await page.locator('summary').first().click()
  await page.locator('form input').fill('digits')
  await page.getByRole('button', { name: 'Try it' }).click()
  await seen('.call-form', '200')
})

/** Runs in the page. */
const findViolations = `axe
  .run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'] })
  .then(({ violations }) => [
    ...violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 160)).join(' | ')),
    ...(document.documentElement.scrollWidth > innerWidth ? ['the page scrolls sideways'] : []),
  ])`

const looks = [
  ['light', 360],
  ['dark', 360],
  ['light', 1280],
  ['dark', 2560],
] as const

test('nobody who reads English by ear, by keyboard or on a small screen is shut out', async () => {
  const axe = await readFile(path.join(projectRoot, 'node_modules/axe-core/axe.min.js'), 'utf8')
  const pages = ['', '#/models', '#/models/digits', '#/playground/digits', '#/rollouts', '#/logs', '#/traces', '/docs']
  const found: string[] = []
  for (const each of pages) {
    await page.goto(each === '/docs' ? `${server.url}/docs` : `${server.url}/console${each}`)
    await page.waitForSelector('h1')
    // A devtools session is not bound by the rules of the page, which forbid inline scripts.
    await page.evaluate(axe)
    for (const [colorScheme, width] of looks) {
      // Colours that are still changing would be measured half way.
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.setViewportSize({ width, height: 900 })
      const violations = (await page.evaluate(findViolations)) as string[]
      found.push(...violations.map((violation) => `${colorScheme} ${width} ${each}: ${violation}`))
    }
  }
  assert.deepEqual(found, [])
  await page.setViewportSize({ width: 1280, height: 900 })
})

test('a server that ends is said, and does not wait for the console', async () => {
  await show('')
  await seen('.tiles', 'Memory')
  await until(async () => (await page.locator('.side-foot').innerText()).includes('0.1'), 'the feed is open')
  await server.stop()
  await seen('[role=alert]', 'The connection to the server is lost')
  assert.deepEqual(offences, [])
})

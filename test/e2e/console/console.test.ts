// The console in a real browser: each page's story, without an error, a request elsewhere or a breach of its own rules.

import assert from 'node:assert/strict'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { SystemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/log.ts'
import { parseFleetCommand } from '../../../src/fleet/fleet-options.ts'
import { openFleet } from '../../../src/open-fleet.ts'
import { until } from '../../until.ts'
import { accessFolder, inferBody } from '../access-fixture.ts'
import { openBrowser } from '../browser.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'
import { badVersion, consoleModels, hostileName } from './console-models.ts'
import { blackJpeg, findViolations, middleOf, pastePicture } from './page-scripts.ts'

let repository: Awaited<ReturnType<typeof consoleModels>>
let server: ServerProcess
let browser: Awaited<ReturnType<typeof openBrowser>>
let page: Page
/** What must stay empty. */
const offences: string[] = []

const axe = readFile(path.join(projectRoot, 'node_modules/axe-core/axe.min.js'), 'utf8')
const loaded = ['digits', 'digit_image', 'words', 'media', 'pair', 'steady', 'silero_vad', 'read_digit']

before(async () => {
  repository = await consoleModels()
  server = await startServerProcess([
    `--model-repository=${exampleModels}`,
    `--model-repository=${repository.root}`,
    `--state-dir=${path.join(repository.root, '.state')}`,
    '--allow-jobs=true',
    '--allow-fault-injection=true',
    `--jobs-dir=${path.join(repository.root, '.jobs')}`,
    '--model-control-mode=explicit',
    ...loaded.map((name) => `--load-model=${name}`),
  ])
  browser = await openBrowser(
    '--force-prefers-reduced-motion',
    '--use-fake-ui-for-media-stream',
    '--use-fake-device-for-media-stream',
    `--use-file-for-fake-audio-capture=${repository.speech}`,
  )
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
const run = (): Promise<void> => page.getByRole('button', { name: 'Run', exact: true }).click()
const textOf = (selector: string): Promise<string> => page.locator(selector).first().innerText()
const seen = (selector: string, words: string): Promise<true> =>
  until(async () => (await textOf(selector)).includes(words), `'${words}' in ${selector}`)

/** Waits until a script in the page says true. */
const becomes = (script: string, what: string): Promise<true> =>
  until(async () => (await page.evaluate(script)) === true, what)

test('a browser that asks for / sees the console, a program is told that the server lives', async () => {
  await page.goto(server.url)
  assert.equal(new URL(page.url()).pathname, '/console')
  await seen('h1', 'Overview')
  await seen('section[aria-label="Models by traffic"]', 'digits')
  const plain = await fetch(server.url, { redirect: 'manual' })
  assert.deepEqual(await plain.json(), { status: 'alive' })
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
  await seen('tbody', hostileName)
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
  await run()
  await until(async () => (await textOf('.bars .best .bar-name')) === 'seven', 'a seven')
  for (const [language, word] of [
    ['Python', 'tritonclient.http'],
    ['TypeScript', 'createHttpClient'],
  ] as const) {
    await page.getByRole('tab', { name: language }).click()
    await seen('.code pre', word)
  }
})

test('a JPEG is uploaded, another is pasted, the camera takes a third; pictures and sound come back', async () => {
  await show('#/playground/media')
  const buffer = Buffer.from((await page.evaluate(blackJpeg)) as number[])
  await page.setInputFiles('input[type=file]', { name: 'black.jpg', mimeType: 'image/jpeg', buffer })
  await page.locator('canvas.preview').first().waitFor()
  await run()
  const negative = page.locator('section[aria-label="Output negative"]')
  await negative.locator('canvas').waitFor()
  assert.deepEqual(await page.evaluate(middleOf('section[aria-label="Output negative"] canvas')), [255, 255, 255, 255])
  await seen('section[aria-label="Output negative"]', 'UINT8 [32, 48, 3]')
  await becomes(`Math.abs(document.querySelector('audio')?.duration - 0.5) < 0.01`, 'half a second of sound')
  await becomes(`document.querySelector('img.answer-picture')?.naturalWidth > 0`, 'the picture of a seven')
  await page.evaluate(pastePicture)
  const answers = (isThere: (text: string) => boolean, what: string): Promise<true> =>
    until(async () => {
      await run()
      return isThere(await negative.innerText())
    }, what)
  await answers((text) => text.includes('[20, 20, 3]'), 'the pasted picture')
  await page.getByRole('button', { name: 'Camera' }).click()
  await becomes(`document.querySelector('video')?.videoWidth > 0`, 'a picture of the camera')
  await page.getByRole('button', { name: 'Take the picture' }).click()
  await answers((text) => !text.includes('[20, 20, 3]'), 'the picture of the camera')
})

test('a file is sent as it is, and text streams', async () => {
  await show('#/playground/read_digit')
  await page.locator('fieldset').first().getByText('file', { exact: true }).click()
  await page.setInputFiles('input[type=file]', path.join(projectRoot, 'examples/images/seven.png'))
  await run()
  await until(async () => (await textOf('.bars .best .bar-name')) === '7', 'a seven')
  await show('#/playground/words')
  await page.getByText('tensors', { exact: true }).click()
  await page.locator('textarea').fill('one two three')
  await run()
  await seen('.answer-text', 'ONE TWO THREE')
  await seen('.answer', 'first piece after')
})

test('a model that takes and gives text can be talked to, and the answer shows as it comes', async () => {
  await show('#/playground/words')
  await page.getByText('chat', { exact: true }).click()
  await page.getByLabel('What to say').fill('good morning')
  await page.getByLabel('What to say').press('Enter')
  await seen('.bubble.user', 'good morning')
  await until(async () => (await page.locator('.bubble.assistant').innerText()).includes('GOODMORNING'), 'the answer')
  await seen('main', 'first token after')
  await page.getByRole('tab', { name: 'Python' }).click()
  await seen('.code pre', 'from openai import OpenAI')
})

test('a job over a file is started and watched to its end', async () => {
  await show('#/jobs')
  await page.getByRole('button', { name: 'New job' }).click()
  await page.locator('form').getByLabel('Model').selectOption('steady')
  await page.getByLabel('Files below').fill('in.jsonl')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.locator('tbody a').first().click()
  await seen('main', '50 answered')
  await seen('.page-head', 'done')
})

test('what is said into the microphone is heard by the voice example', async () => {
  await show('#/playground/silero_vad')
  // The model says so in its galatea.yaml.
  await until(async () => (await page.getByLabel('Values of sr').inputValue()) === '16000', 'the rate')
  await page.getByRole('button', { name: 'Record' }).click()
  // The recorder runs in real time: the fake microphone speaks after one second.
  const end = ((await page.evaluate('performance.now()')) as number) + 2600
  await becomes(`performance.now() > ${end}`, 'a recording with speech')
  await page.getByRole('button', { name: 'Stop the recording' }).click()
  await seen('fieldset [role=status]', 'pieces of one sequence')
  await run()
  await seen('.answer', 'requests of one sequence')
  const highest = Number(/highest (\S+)/.exec(await textOf('.answer'))?.[1])
  assert.ok(highest > 0.5, `the highest probability of speech is ${highest}`)
})

test('two versions answer beside each other, with their difference; many runs show how long they took', async () => {
  await show('#/playground/pair/1')
  await page.getByLabel('Values of X').fill('5')
  await page.getByLabel('Beside it').selectOption('2')
  await page.getByLabel('times').fill('20')
  await run()
  await seen('section[aria-label="Answer of version 1"]', '10')
  await seen('section[aria-label="Answer of version 2"]', '15')
  await seen('section[aria-label="Difference"]', 'at most 5.00 apart')
  await seen('section[aria-label="Answer of version 2"]', '20 times: fastest')
  assert.equal(await page.locator('.histogram').count(), 2)
})

test('a wide answer scrolls in its own frame', async () => {
  const told = (verb: string): Promise<Response> =>
    fetch(`${server.url}/v2/repository/models/simple/${verb}`, { method: 'POST' })
  await told('load')
  await show('#/playground/simple')
  await run()
  await seen('.answer', 'OUTPUT1')
  assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
  await told('unload')
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
  await page.getByRole('tab', { name: 'Registry' }).click()
  await seen('[role=tabpanel]', 'sha256:')
  await page.getByRole('tab', { name: 'Instances' }).click()
  await page.getByLabel('Instances', { exact: true }).getByText('digits_0_0').waitFor()
  await page.getByRole('spinbutton', { name: 'Instances' }).fill('2')
  await page.getByRole('button', { name: 'Change' }).click()
  await seen('dialog', '1 run now')
  await page.locator('dialog .main').click()
  await seen('[role=tabpanel]', 'digits_0_1')
  await seen('section[aria-label="Configuration"]', 'galatea check finds nothing wrong')
  await seen('section[aria-label="Configuration"]', 'backend: "onnxruntime"')
  await seen('section[aria-label="History"]', 'by start')
})

test('an ensemble is drawn with the time of each step, and a mistake stands at its line', async () => {
  await show('#/models/read_digit')
  await page.getByRole('tab', { name: 'Steps' }).click()
  await until(async () => /digits\n[\d.]+ m?s/.test(await page.locator('.graph').innerText()), 'the time of a step')
  assert.equal(await page.locator('.graph .edge').count(), 3)
  await show('#/models/unfit')
  await seen('.source-text .marked', 'max_bach_size: 5')
  await seen('.source-text .line-finding', "did you mean 'max_batch_size'?")
})

test('the log follows, and what clients put into it is text', async () => {
  await show('#/logs')
  await seen('.log', "successfully loaded 'digits'")
  const load = `${server.url}/v2/repository/models/${encodeURIComponent(hostileName)}/load`
  await fetch(load, { method: 'POST' })
  await page.getByLabel('Text').fill('successfully')
  await until(async () => !(await textOf('.log')).includes('Started'), 'only lines that fit')
})

test('a bad version that is rolled out goes back while somebody watches', async () => {
  const next = path.join(repository.root, 'steady/2')
  await mkdir(next)
  await writeFile(path.join(next, 'model.js'), badVersion)
  await show('#/rollouts')
  await page.getByRole('button', { name: 'New rollout' }).click()
  await page.locator('form').getByLabel('Model').selectOption('steady')
  await page.getByLabel('Candidate').fill('2')
  await page.getByLabel('Per cent').fill('50')
  await page.getByRole('button', { name: 'Start', exact: true }).click()
  await page.getByRole('link', { name: 'steady-2' }).click()
  await seen('h1', 'steady-2')
  await page.getByRole('button', { name: 'Begin', exact: true }).click()
  await seen('dialog', '10 % of the real requests of clients (arm: candidate) fail')
  await page.locator('dialog .danger').click()
  await page.getByRole('button', { name: 'End fault-1' }).click()
  await page.locator('dialog .main').click()
  await seen('section[aria-label="Faults on purpose"]', 'No fault is in force')
  const body = JSON.stringify({ inputs: [{ name: 'X', shape: [1], datatype: 'INT32', data: [-1] }] })
  await until(async () => {
    const sent = Array.from({ length: 16 }, () =>
      fetch(`${server.url}/v2/models/steady/infer`, { method: 'POST', body }),
    )
    for (const answer of await Promise.all(sent)) assert.equal(answer.status, 200, await answer.text())
    return (await textOf('main')).includes('rolled back')
  }, 'the bad version goes back')
  await seen('main', 'errors is worse')
})

const accessRules = `
anonymous: { allow: [health] }
keys: keys.json
roles:
  caller: { allow: ["inference@m*", metadata, model-config, model-repository] }
  operator: { allow: ["*"] }
grants:
  - { to: { key: "web-*" }, role: caller, tenant: web }
tenants:
  web: { limits: [{ requests: 1000/1m }] }
`

test('a key is made, used and revoked; who may not press a button does not see it', async () => {
  const folder = await accessFolder(accessRules, ['m1'])
  const boss = await folder.key('boss', '--role', 'operator')
  await using guarded = await startServerProcess([...folder.flags, '--cost-per-hour=1.2', '--currency=EUR', '--model-control-mode=explicit', '--load-model=m1']) // prettier-ignore
  const tab = await browser.context.newPage()
  try {
    tab.on('pageerror', (error) => offences.push(error.message))
    const links = (): Promise<string> => tab.locator('nav').innerText()
    const useKey = async (key: string): Promise<void> => {
      await tab.getByLabel(/asks for a key/).fill(key)
      await tab.getByRole('button', { name: 'Use the key' }).click()
      await tab.getByRole('button', { name: 'Forget the key' }).waitFor()
      await tab.locator('h1').waitFor()
    }
    await tab.goto(`${guarded.url}/console#/access`)
    await useKey(boss)
    await tab.getByRole('link', { name: 'Cost' }).click()
    await until(async () => (await tab.locator('main').innerText()).includes('1.20 EUR'), 'the price of an hour')
    await violationsOf(tab, '#/cost')
    await tab.getByRole('link', { name: 'Access' }).click()
    await tab.getByRole('button', { name: 'New key' }).click()
    await tab.getByLabel('Name').fill('web-1')
    await tab.getByRole('button', { name: 'Make the key' }).click()
    const key = await tab.locator('.notice pre').innerText()
    const infer = (): Promise<Response> => fetch(`${guarded.url}/v2/models/m1/infer`, { method: 'POST', headers: { 'x-api-key': key }, body: inferBody() }) // prettier-ignore
    assert.equal((await infer()).status, 200)
    await until(async () => /web\s+1\s+1/.test(await tab.locator('main').innerText()), 'the use of the tenant web')
    await violationsOf(tab, '#/access')
    await tab.getByRole('button', { name: 'Forget the key' }).click()
    await useKey(key)
    await until(async () => !(await links()).includes('Rollouts'), 'only what a caller may do')
    await tab.getByRole('link', { name: 'Models' }).click()
    await tab.getByRole('button', { name: 'Unload m1' }).waitFor()
    await tab.goto(`${guarded.url}/console#/cost`)
    await until(async () => (await tab.locator('main').innerText()).includes('not to you'), 'no page of costs')
    await tab.getByRole('button', { name: 'Forget the key' }).click()
    await useKey(boss)
    await tab.goto(`${guarded.url}/console#/access`)
    await tab.getByRole('button', { name: 'Revoke web-1' }).click()
    await tab.getByLabel(/Type web-1/).fill('web-1')
    await tab.locator('dialog .danger').click()
    await until(async () => (await infer()).status === 401, 'the key is refused')
    await until(async () => (await tab.locator('main').innerText()).includes('revoked'), 'the key is shown as revoked')
  } finally {
    await tab.close()
    await folder.remove()
  }
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

const sharedFleet = {
  store: { at: '10.0.0.7:6379', away: false },
  servers: [
    { url: 'http://10.0.0.11:8000', this: true, state: 'ready', reason: '', pressure: 0.4, version: '0.1.0', models: [{ name: hostileName, versions: ['1', '2'] }] }, // prettier-ignore
    { url: 'javascript:alert(1)', state: 'silent', reason: hostileName, pressure: 1.3, version: '0.0.9', seen_seconds_ago: 43, models: [] }, // prettier-ignore
  ],
  models: [{ name: hostileName, differs: true, servers: 1, versions: [{ version: '2', servers: ['http://10.0.0.11:8000'] }] }], // prettier-ignore
}

test('the fleet shows who shares a store, who steers, and how to begin', async () => {
  await show('#/fleet')
  await seen('section[aria-label="This server stands alone"]', '--rollout-store=redis://')
  await seen('section[aria-label="Servers"]', 'this server')
  await page.route('**/v2/fleet', (route) => route.fulfill({ json: sharedFleet }))
  await seen('section[aria-label="Models of the fleet"]', 'differs')
  await seen('section[aria-label="Servers"]', hostileName)
  assert.equal(await page.locator('a[href^="javascript:"]').count(), 0)
  await page.getByLabel('only those that differ').check()
  await seen('section[aria-label="Models of the fleet"]', hostileName)
  await violationsOf(page, '#/fleet')
  await page.unroute('**/v2/fleet')
})

test('the control plane of Envoy has the page of its servers', async () => {
  const options = parseFleetCommand(['--upstream', server.url, '--xds-port', '0', '--http-port', '0'])
  assert.equal(options.kind, 'run')
  const fleet = await openFleet({ clock: new SystemClock(), log: silentLog }, options.options)
  const tab = await browser.context.newPage()
  try {
    tab.on('pageerror', (error) => offences.push(error.message))
    await tab.goto(`http://127.0.0.1:${fleet.httpAddress.port}/`)
    await until(async () => (await tab.locator('main').innerText()).includes(server.url), 'the server')
    assert.equal((await tab.locator('nav').innerText()).trim(), 'Fleet')
    await until(async () => (await tab.locator('main').innerText()).includes('No Envoy is connected'), 'no Envoy')
    await fleet.close()
    await tab.getByText('The connection to the server is lost').waitFor()
  } finally {
    await fleet.close()
    await tab.close()
  }
})

/** Both schemes and three widths. */
const looks = [
  ['light', 360],
  ['dark', 1280],
  ['light', 2560],
] as const

async function violationsOf(shown: Page, name: string): Promise<void> {
  // A devtools session is not bound by the rules of the page, which forbid inline scripts.
  await shown.evaluate(await axe)
  for (const [i, [colorScheme, width]] of looks.entries()) {
    // Colours that are still changing would be measured half way.
    await shown.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await shown.setViewportSize({ width, height: 900 })
    const violations = (await shown.evaluate(findViolations(i > 0))) as string[]
    assert.deepEqual(violations, [], `${colorScheme} ${width} ${name}`)
  }
  await shown.setViewportSize({ width: 1280, height: 900 })
}

test('nobody who reads English by ear, by keyboard or on a small screen is shut out', async () => {
  const pages = [
    '',
    '#/models',
    '#/models/read_digit',
    '#/playground/media',
    '#/rollouts/steady-2',
    '#/logs',
    '#/traces',
  ]
  for (const each of pages) {
    await show(each)
    await violationsOf(page, each)
  }
  await page.goto(`${server.url}/docs`)
  await page.getByLabel('Search calls').fill('/v2/logs')
  await page.locator('summary').first().click()
  await violationsOf(page, '/docs')
})

test('a server that ends is said, and does not wait for the console', async () => {
  await show('')
  await seen('.tiles', 'Memory')
  await until(async () => (await page.locator('.side-foot').innerText()).includes('0.1'), 'the feed is open')
  await server.stop()
  await seen('[role=alert]', 'The connection to the server is lost')
  assert.deepEqual(offences, [])
})

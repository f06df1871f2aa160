// A page of another origin in a real browser: it tries to run code on the server, and nothing happens.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { openBrowser } from './browser.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const identity = `backend: "identity" input { name: "IN" data_type: TYPE_INT32 dims: 1 }
  output { name: "OUT" data_type: TYPE_INT32 dims: 1 }`

/** A form of this kind sends `name=value` as it is: here JSON whose last string holds the `=`. */
const script = `
async function sendAll(address, list) {
  const frame = document.querySelector('iframe')
  for (const [target, body] of list) {
    const text = JSON.stringify(body)
    await fetch(address + target, { method: 'POST', mode: 'no-cors', body: text })
    const form = document.createElement('form')
    Object.assign(form, { method: 'post', action: address + target, enctype: 'text/plain', target: 'answers' })
    const field = document.createElement('input')
    Object.assign(field, { name: text.slice(0, -1) + (text === '{}' ? '' : ',') + '"x":"', value: '"}' })
    form.append(field)
    document.body.append(form)
    const answered = new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }))
    form.submit()
    await answered
    navigator.sendBeacon(address + target, text)
  }
}`

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let pages: http.Server
let pageOrigin: string
/** Explicit, with uploads: only the rule about pages stands between the page and the machine. */
let server: ServerProcess
let openServer: ServerProcess
let browser: Awaited<ReturnType<typeof openBrowser>>

before(async () => {
  repository = await temporaryRepository({ 'echo/config.pbtxt': identity, 'echo/1/x': '' })
  pages = http.createServer((_, response) => {
    response.setHeader('content-type', 'text/html')
    response.end(`<!doctype html><title>page</title><iframe name="answers"></iframe><script>${script}</script>`)
  })
  pages.listen(0, '127.0.0.1')
  await once(pages, 'listening')
  pageOrigin = `http://attacker.example:${(pages.address() as AddressInfo).port}`
  const flags = [`--model-repository=${repository.root}`, '--model-control-mode=explicit', '--load-model=echo', '--allow-model-uploads'] // prettier-ignore
  server = await startServerProcess(flags)
  openServer = await startServerProcess([...flags, `--http-cors-origin=${pageOrigin}`])
  browser = await openBrowser('--host-resolver-rules=MAP *.example 127.0.0.1')
})

after(async () => {
  await browser?.close()
  await server?.stop()
  await openServer?.stop()
  pages?.close()
  await repository?.remove()
})

async function openPage(address: string): Promise<Page> {
  const page = await browser.context.newPage()
  await page.goto(address)
  return page
}

const tensor = (name: string): object => ({ name, data_type: 'TYPE_INT32', dims: [1] })

/** What a page would send: a model that writes a file as soon as it is loaded, and everything else that acts. */
function attacks(marker: string): [path: string, body: object][] {
  const code = `import { writeFileSync } from 'node:fs'
writeFileSync(${JSON.stringify(marker)}, 'here')
export const config = { input: [], output: [] }
export function infer() { return [] }`
  const config = { backend: 'typescript', input: [tensor('IN')], output: [tensor('OUT')] }
  const upload = { config: JSON.stringify(config), 'file:1/model.ts': Buffer.from(code).toString('base64') }
  const inputs = [{ name: 'IN', datatype: 'INT32', shape: [1], data: [7] }]
  return [
    ['/v2/repository/models/evil/load', { parameters: upload }],
    ['/v2/models/echo/infer', { inputs }],
    ['/v2/logging', { log_info: false, log_error: false }],
    ['/v2/trace/setting', { trace_rate: '7' }],
    ['/v2/repository/models/echo/unload', {}],
  ]
}

const sendAll = (page: Page, base: string, requests: [string, object][]): Promise<unknown> =>
  page.evaluate(`sendAll(${JSON.stringify(base)}, ${JSON.stringify(requests)})`)

const ask = async (base: string, target: string, method = 'GET'): Promise<unknown> =>
  (await fetch(`${base}${target}`, { method })).json()

/** What the attacks would have changed. */
async function stateOf(base: string): Promise<unknown> {
  const statistics = (await ask(base, '/v2/models/stats')) as { model_stats: { inference_count: number }[] }
  return {
    index: await ask(base, '/v2/repository/index', 'POST'),
    logging: await ask(base, '/v2/logging'),
    trace: await ask(base, '/v2/trace/setting'),
    counts: statistics.model_stats.map(({ inference_count: count }) => count),
  }
}

test('a page of another origin changes nothing, by no-cors fetches, forms or beacons', async () => {
  const marker = path.join(repository.root, '..', `marker-${path.basename(repository.root)}`)
  const base = `http://127.0.0.1:${server.port}`
  const before = await stateOf(base)
  const page = await openPage(pageOrigin)
  await sendAll(page, base, attacks(marker))
  await sendAll(page, `http://localhost:${server.port}`, attacks(marker))
  assert.deepEqual(await stateOf(base), before)
  assert.equal(existsSync(marker), false)
  await page.close()
})

test('a page that was named may act and read the answers', async () => {
  const page = await openPage(pageOrigin)
  const base = `http://127.0.0.1:${openServer.port}`
  const [, infer] = attacks('')
  const status = await page.evaluate(
    async ([address, body]) => {
      const sent = await fetch(address, { method: 'POST', body, headers: { 'content-type': 'application/json' } })
      return sent.status
    },
    [`${base}/v2/models/echo/infer`, JSON.stringify(infer?.[1])] as const,
  )
  assert.equal(status, 200)
  await page.close()
})

test("a page whose name leads to this machine (DNS rebinding) reads nothing and does nothing, and the server's own address does", async () => {
  const page = await openPage(`http://rebound.example:${server.port}/v2`)
  assert.match(await page.content(), /--http-allowed-hosts=rebound\.example/)
  const statusOf = (target: string): Promise<number> =>
    page.evaluate(async (url) => (await fetch(url, { method: 'POST', body: '{}' })).status, target)
  for (const target of ['/v2/repository/index', '/v2/models/echo/infer', '/v2/logging']) {
    assert.equal(await statusOf(target), 403, target)
  }
  await page.goto(`http://localhost:${server.port}/v2`)
  assert.equal(await statusOf('/v2/repository/index'), 200)
  await page.close()
})

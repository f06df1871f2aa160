// The SDK in a real browser, on a page of another origin than the server's.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { openBrowser } from './browser.ts'
import { exampleModels, projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const echoModel = `
import { fromStrings } from 'galatea/model'
export const config = {
  input: [{ name: 'IN', dataType: 'BYTES', dims: [-1] }],
  output: [{ name: 'OUT', dataType: 'BYTES', dims: [-1] }],
}
export function infer(request) {
  const words = request.input('IN')
  return [fromStrings('OUT', words.shape, words.asStrings())]
}
`
/** Says a word at a time until it has said them all, or for ever when it is asked to; remembers who gave up. */
const wordsModel = `
import { fromStrings } from 'galatea/model'
let abandoned = 0
export const config = {
  decoupled: true,
  input: [{ name: 'text_input', dataType: 'BYTES', dims: [1] }],
  output: [{ name: 'text_output', dataType: 'BYTES', dims: [1] }],
}
export async function* infer(request) {
  const text = request.input('text_input').asStrings()[0]
  if (text === 'abandoned') {
    yield [fromStrings('text_output', [1], [String(abandoned)])]
    return
  }
  for (let i = 0; text === 'for ever' || i < text.split(' ').length; i++) {
    yield [fromStrings('text_output', [1], [text === 'for ever' ? String(i) : text.split(' ')[i]])]
    await new Promise((resolve) => setTimeout(resolve, 2))
    if (request.signal.aborted) {
      abandoned++
      return
    }
  }
}
`

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let pages: http.Server
let origin: string
let server: ServerProcess
let closedServer: ServerProcess
let browser: Awaited<ReturnType<typeof openBrowser>>
let page: Page

/** The page, and the client's modules as the build writes them: their types taken away and nothing else. */
async function servePage(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const target = request.url ?? '/'
  if (target === '/') {
    const imports = JSON.stringify({ imports: { 'galatea/client': '/src/client/web.ts' } })
    response.setHeader('content-type', 'text/html')
    response.end(`<!doctype html><title>page</title><script type="importmap">${imports}</script>`)
  } else if (target.startsWith('/src/') && target.endsWith('.ts')) {
    const source = await readFile(path.join(projectRoot, path.normalize(target)), 'utf8')
    response.setHeader('content-type', 'text/javascript')
    response.end(stripTypeScriptTypes(source))
  } else {
    response.statusCode = 404
    response.end()
  }
}

before(async () => {
  repository = await temporaryRepository({ 'echo/1/model.ts': echoModel, 'words/1/model.ts': wordsModel })
  pages = http.createServer((request, response) => void servePage(request, response))
  pages.listen(0, '127.0.0.1')
  await once(pages, 'listening')
  origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`
  const models = [`--model-repository=${exampleModels}`, `--model-repository=${repository.root}`]
  ;[server, closedServer, browser] = await Promise.all([
    startServerProcess([...models, `--http-cors-origin=https://elsewhere.example,${origin}`]),
    startServerProcess([`--model-repository=${exampleModels}`]),
    openBrowser(),
  ])
  page = await browser.context.newPage()
  await page.goto(origin)
})
after(async () => {
  await browser?.close()
  pages?.close()
  await Promise.all([server?.stop(), closedServer?.stop()])
  await repository?.remove()
})

/** Runs statements in the page with a client of the server; the value they return comes back. */
const inPage = (statements: string, url = server.url): Promise<unknown> =>
  page.evaluate(`(async () => {
    const { createHttpClient, InferenceError } = await import('galatea/client')
    const client = createHttpClient({ url: ${JSON.stringify(url)} })
    ${statements}
  })()`)

test('a page of another origin reads metadata', async () => {
  assert.deepEqual(
    await inPage(
      `return [await client.isReady(), (await client.modelMetadata('simple')).inputs.map(({ name }) => name)]`,
    ),
    [true, ['INPUT0', 'INPUT1']],
  )
})

test('it infers with typed arrays, in binary, JSON and compressed', async () => {
  const sums = Array.from({ length: 16 }, (_, i) => 2 * i)
  for (const options of ["{ encoding: 'binary' }", "{ encoding: 'json' }", "{ compression: 'gzip' }"]) {
    const answer = await inPage(`
      const numbers = { data: Int32Array.from({ length: 16 }, (_, i) => i), shape: [1, 16] }
      const result = await client.infer('simple', { INPUT0: numbers, INPUT1: numbers }, ${options})
      const output = result.output('OUTPUT0').as('INT32')
      return [output instanceof Int32Array, [...output]]`)
    assert.deepEqual(answer, [true, sums], options)
  }
})

test('it infers with strings', async () => {
  const words = ['', 'naïve', '日本語', 'a'.repeat(1000)]
  assert.deepEqual(
    await inPage(`return (await client.infer('echo', { IN: ${JSON.stringify(words)} })).output('OUT').strings()`),
    words,
  )
})

test('it reads a stream as it comes, and ending the loop or aborting ends the request', async () => {
  const text = 'one word at a time'
  const words = await inPage(`
    const words = []
    for await (const { text_output } of client.generateStream('words', { text_input: '${text}' })) words.push(text_output)
    return words`)
  assert.deepEqual(words, text.split(' '))
  const ends = await inPage(`
    let left = 0
    for await (const answer of client.generateStream('words', { text_input: 'for ever' })) if (++left === 3) break
    const controller = new AbortController()
    let code = ''
    try {
      const options = { signal: controller.signal }
      for await (const answer of client.generateStream('words', { text_input: 'for ever' }, options)) controller.abort()
    } catch (reason) {
      code = reason === controller.signal.reason ? reason.name : String(reason)
    }
    return [left, code]`)
  assert.deepEqual(ends, [3, 'AbortError'])
  const abandoned = `return (await client.generate('words', { text_input: 'abandoned' })).text_output`
  await until(async () => (await inPage(abandoned)) === '2', 'two requests to be abandoned')
})

test('errors of the server arrive as such, also across origins', async () => {
  const error = await inPage(`
    try {
      await client.infer('no_such_model', {})
    } catch (reason) {
      return [reason instanceof InferenceError, reason.code, reason.status]
    }`)
  assert.deepEqual(error, [true, 'NOT_FOUND', 404])
})

test('a server that was not told of the page is out of its reach', async () => {
  assert.equal(await inPage('return client.isReady()', closedServer.url), false)
  assert.equal((await fetch(`${closedServer.url}/v2/health/ready`)).status, 200)
})

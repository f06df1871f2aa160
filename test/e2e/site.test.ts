// The documentation site: built as `npm run docs` builds it, then read in a real browser.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { openBrowser } from './browser.ts'
import { projectRoot } from './server-process.ts'
import { requireTool } from '../tool.ts'

const site = path.join(projectRoot, '.cache/site')
const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png', '.json': 'application/json' } // prettier-ignore
const fileOf = (address: string): string => path.join(site, address.endsWith('/') ? `${address}index.html` : address)

const server = http.createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://site')
  readFile(fileOf(decodeURI(pathname))).then(
    (body) =>
      response.writeHead(200, { 'content-type': types[path.extname(fileOf(pathname))] ?? 'text/plain' }).end(body),
    () => response.writeHead(404).end(),
  )
})
let origin = ''

before(async () => {
  await requireTool('vitepress')
  await promisify(execFile)('npm', ['run', '--silent', 'docs'], { cwd: projectRoot })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
after(() => {
  server.closeAllConnections()
  server.close()
})

test('every link of every page leads to a page or a file of the site, and every anchor is there', () => {
  const pages = globSync('**/*.html', { cwd: site }).filter((page) => page !== '404.html')
  assert.ok(pages.length > 80, `${pages.length} pages`)
  const textOf = new Map(pages.map((page) => [page, readFileSync(path.join(site, page), 'utf8')]))
  const broken: string[] = []
  for (const [page, text] of textOf) {
    for (const [, link = ''] of text.matchAll(/(?:href|src)="([^"]+)"/g)) {
      if (/^(https?:|mailto:|data:)/.test(link)) continue
      const { pathname, hash } = new URL(link.replaceAll('&amp;', '&'), `http://site/${page}`)
      const target = path.relative(site, fileOf(decodeURI(pathname)))
      if (!existsSync(path.join(site, target))) broken.push(`${page}: ${link}`)
      else if (hash !== '' && textOf.has(target) && !hasAnchor(textOf.get(target) ?? '', decodeURIComponent(hash.slice(1)))) broken.push(`${page}: ${link}`) // prettier-ignore
    }
  }
  assert.deepEqual(broken, [])
})

const hasAnchor = (text: string, id: string): boolean => text.includes(`id="${id}"`)

test('the menu has every page of the guide and of the reference', async () => {
  const index = await readFile(path.join(site, 'guide/quickstart.html'), 'utf8')
  const missing = globSync('docs/{guide,reference}/*.md', { cwd: projectRoot })
    .map((page) => page.replace(/^docs/, '').replace(/\.md$/, '.html'))
    .filter((address) => !index.includes(`href="${address}"`))
  assert.deepEqual(missing, [])
})

test('in a browser: the first page, a search, both schemes, a phone; nothing from elsewhere, no error', async () => {
  const browser = await openBrowser()
  try {
    const page = await browser.context.newPage()
    const problems: string[] = []
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('request', (request) => new URL(request.url()).origin !== origin && problems.push(request.url()))
    await page.goto(`${origin}/`)
    await page.getByText('One server for all your models').waitFor()
    await page
      .getByRole('button', { name: /search/i })
      .first()
      .click()
    await page.locator('#localsearch-input').fill('max_queue_delay_microseconds')
    await page.locator('.results .result').first().click()
    await page.waitForURL(/\.html/)
    await page.goto(`${origin}/`)
    await page
      .getByRole('button', { name: /search/i })
      .first()
      .click()
    await page.locator('#localsearch-input').fill('port is in use by another process')
    await page.locator('.results .result').first().waitFor()
    const found = await page.locator('.results .result').allInnerTexts()
    assert.ok(
      found.some((each) => each.includes('Troubleshooting')),
      found.join('\n'),
    )
    assert.ok(!found.some((each) => each.includes('Changelog')), found.join('\n'))
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize({ width: 360, height: 740 })
      await page.goto(`${origin}/guide/batching.html`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, 'a phone scrolls in one direction')
    }
    assert.deepEqual(problems, [])
  } finally {
    await browser.close()
  }
})

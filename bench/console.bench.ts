// What a console costs: the time until a page shows, how smoothly it shows 200 models under load, what the server spends on it while it is
// open and while its reader stalls, and its size.

import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import type { CDPSession, Page } from 'playwright-core'
import { bundleConsole } from '../scripts/bundle-console.ts'
import { openBrowser } from '../test/e2e/browser.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { medianOf, type Bench, type Figure } from './bench.ts'
import { inferRequest } from './infer-request.ts'
import { OpenHttpLoad } from './open-http-load.ts'
import { cpuMicrosecondsOf, ownMibOf } from './process-usage.ts'

const modelCount = 200
const requestsPerSecond = 1000
const connectionCount = 16
const stalledReaders = 20

const configText = `backend: "identity"
max_batch_size: 8
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
`

const createRepository = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-console-'))
  for (let i = 0; i < modelCount; i++) {
    await mkdir(path.join(root, `model_${i}`, '1'), { recursive: true })
    await writeFile(path.join(root, `model_${i}`, 'config.pbtxt'), configText)
  }
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

/** Milliseconds from the navigation to the first text on the screen, in a browser that was never there. */
const firstPaint = async (url: string): Promise<number> => {
  const browser = await openBrowser()
  try {
    const page = await browser.context.newPage()
    await page.goto(url)
    await page.waitForSelector('h1')
    const script = `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()`
    return (await page.evaluate(script)) as number
  } finally {
    await browser.close()
  }
}

/** Frames in a second; the page says when it drew one. */
const framesPerSecond = async (page: Page, seconds: number): Promise<number> =>
  (await page.evaluate(`new Promise((resolve) => {
    const started = performance.now()
    let frames = 0
    const next = (now) => {
      frames++
      if (now - started < ${seconds * 1000}) requestAnimationFrame(next)
      else resolve((frames * 1000) / (now - started))
    }
    requestAnimationFrame(next)
  })`)) as number

/** Processor time of the page's main thread: what does not move with what else the machine does. */
const mainThreadSeconds = async (devtools: CDPSession): Promise<number> => {
  const { metrics } = await devtools.send('Performance.getMetrics')
  return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? NaN
}

/** Of one core. */
const shareOfCore = async (server: ServerProcess, seconds: number): Promise<number> => {
  const [startedMs, before] = [performance.now(), cpuMicrosecondsOf(server.pid)]
  await pause(seconds * 1000)
  return (cpuMicrosecondsOf(server.pid) - before) / 1000 / (performance.now() - startedMs)
}

/** Reads nothing. */
const stalledReader = async (server: ServerProcess): Promise<Socket> => {
  const socket = connect(server.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.pause()
  socket.write('GET /v2/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n')
  return socket
}

type Smoothness = { readonly shown: number; readonly empty: number; readonly workMs: number }

/** The page of models under load, beside an empty page under the same load. */
const measureSmoothness = async (server: ServerProcess, page: Page, seconds: number): Promise<Smoothness> => {
  const input = { name: 'INPUT0', datatype: 'FP32', shape: [1, 4], values: new Float32Array(4) }
  using load = await OpenHttpLoad.open(server.port, connectionCount, inferRequest('model_7', [input], 'binary'))
  const sending = load.run(requestsPerSecond, 2 * seconds + 2)
  await page.goto('about:blank')
  const empty = await framesPerSecond(page, seconds)
  await page.goto(`${server.url}/console#/models`)
  await page.waitForSelector(`tbody tr:nth-child(${modelCount})`)
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const workBefore = await mainThreadSeconds(devtools)
  const shown = await framesPerSecond(page, seconds)
  const workMs = (((await mainThreadSeconds(devtools)) - workBefore) * 1000) / seconds
  await devtools.detach()
  await sending
  return { shown, empty, workMs }
}

/** MiB for each reader, beyond what the same time costs without readers. */
const measureStalled = async (server: ServerProcess, seconds: number): Promise<number> => {
  const growth = async (readers: number): Promise<number> => {
    const before = ownMibOf(server.pid)
    const sockets = await Promise.all(Array.from({ length: readers }, () => stalledReader(server)))
    await pause(seconds * 1000)
    const after = ownMibOf(server.pid)
    for (const socket of sockets) socket.destroy()
    return after - before
  }
  // The first reader opens the feeds, which have a history of their own.
  await growth(1)
  const without = await growth(0)
  return Math.max(0, (await growth(stalledReaders)) - without) / stalledReaders
}

const sizes = async (): Promise<Figure[]> => {
  const files = [...(await bundleConsole()).values()]
  const packed = files.reduce((sum, text) => sum + gzipSync(text).length, 0) / 1000
  const raw = files.reduce((sum, text) => sum + Buffer.byteLength(text), 0) / 1000
  return [
    { what: 'all files of the console, gzip', value: packed, unit: 'kB', target: { kind: 'at most', value: 120 }, detail: '' }, // prettier-ignore
    { what: 'growth of the package by its files', value: raw, unit: 'kB', target: { kind: 'at most', value: 400 }, detail: 'not packed' }, // prettier-ignore
  ]
}

export const bench: Bench = {
  name: 'console',
  summary: `first paint, frames with ${modelCount} models under load, what an open console costs the server, size`,
  async run({ rounds, secondsPerRun, say }) {
    await using repository = await createRepository()
    await using server = await startServerProcess([`--model-repository=${repository.path}`])
    const seconds = Math.max(1, secondsPerRun * 3)
    const url = `${server.url}/console`
    // A checkout bundles the files for the first browser.
    await (await fetch(url)).text()
    // Nobody has watched this server yet.
    const never: number[] = []
    for (let round = 0; round < rounds; round++) never.push(await shareOfCore(server, seconds))
    const paints: number[] = []
    for (let round = 0; round < rounds; round++) paints.push(await firstPaint(url))
    say(`first paint: ${paints.map((ms) => ms.toFixed(0)).join(' ')} ms`)
    const browser = await openBrowser()
    try {
      const page = await browser.context.newPage()
      const smooth: Smoothness[] = []
      for (let round = 0; round < rounds; round++) smooth.push(await measureSmoothness(server, page, seconds))
      const [closed, open]: [number[], number[]] = [[], []]
      for (let round = 0; round < rounds; round++) {
        await page.goto('about:blank')
        closed.push(await shareOfCore(server, seconds))
        await page.goto(`${url}#/models`)
        await page.waitForSelector(`tbody tr:nth-child(${modelCount})`)
        open.push(await shareOfCore(server, seconds))
      }
      await page.goto('about:blank')
      const stalled = await measureStalled(server, seconds)
      const cost = medianOf(open.map((share, i) => share - (closed[i] ?? 0)))
      return [
        { what: 'first paint on loopback', value: medianOf(paints), unit: 'ms', target: { kind: 'at most', value: 300 }, detail: 'a browser with an empty cache' }, // prettier-ignore
        {
          what: `frames of ${modelCount} models at ${requestsPerSecond} requests/s, beside an empty page`,
          value: medianOf(smooth.map(({ shown, empty }) => shown / empty)),
          unit: '×',
          target: { kind: 'at least', value: 0.95 },
          detail: `${medianOf(smooth.map(({ shown }) => shown)).toFixed(0)} of ${medianOf(smooth.map(({ empty }) => empty)).toFixed(0)} frames a second`,
        },
        {
          what: 'work of the page in a second of it',
          value: medianOf(smooth.map(({ workMs }) => workMs)),
          unit: 'ms',
          target: { kind: 'at most', value: 100 },
          detail: 'processor time of its main thread',
        },
        {
          what: 'an open console, of one core of the server',
          value: cost * 100,
          unit: '%',
          target: { kind: 'at most', value: 1 },
          detail: `${(medianOf(open) * 100).toFixed(2)} % open, ${(medianOf(closed) * 100).toFixed(2)} % closed`,
        },
        {
          what: 'a console that was closed, of one core of the server',
          value: Math.max(0, medianOf(closed) - medianOf(never)) * 100,
          unit: '%',
          target: { kind: 'at most', value: 0.1 },
          detail: `${(medianOf(closed) * 100).toFixed(2)} % after it, ${(medianOf(never) * 100).toFixed(2)} % before the first one`,
        },
        { what: 'a reader that stalls', value: stalled, unit: 'MiB', target: { kind: 'at most', value: 1 }, detail: `${stalledReaders} readers of /v2/live` }, // prettier-ignore
        ...(await sizes()),
      ]
    } finally {
      await browser.close()
    }
  },
}

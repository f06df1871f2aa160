import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { SystemClock } from '../../base/clock.ts'
import { MemoryLog } from '../../../test/fakes/memory-log.ts'
import { createMetricsPort } from '../../metrics-service.ts'

const plainText = (pieces: () => Iterable<string>) => ({ contentType: 'text/plain; charset=utf-8', pieces })

async function serving(t: TestContext, pieces: () => Iterable<string>) {
  const log = new MemoryLog()
  const formats = [
    plainText(pieces),
    { contentType: 'application/openmetrics-text; version=1.0.0', pieces: () => ['# EOF\n'] },
  ]
  const frontend = createMetricsPort({ clock: new SystemClock(), log, formats }, { address: '127.0.0.1', port: 0 })
  t.after(() => frontend.close())
  const { port } = await frontend.listen()
  const get = (path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`http://127.0.0.1:${port}${path}`, init)
  return { frontend, log, get, port }
}

test('the page is at /metrics, with or without a slash, and other paths are empty', async (t) => {
  const { get } = await serving(t, () => ['a 1\n', 'b 2\n'])
  for (const path of ['/metrics', '/metrics/', '/metrics?x=1']) {
    const answer = await get(path)
    assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8')
    assert.equal(await answer.text(), 'a 1\nb 2\n')
  }
  const other = await get('/other')
  assert.equal(other.status, 200)
  assert.equal(await other.text(), '')
})

test('OpenMetrics is for those who ask for it', async (t) => {
  const { get } = await serving(t, () => ['a 1\n'])
  const accept = 'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'
  const answer = await get('/metrics', { headers: { accept } })
  assert.equal(answer.headers.get('content-type'), 'application/openmetrics-text; version=1.0.0')
  assert.equal(await answer.text(), '# EOF\n')
  const plain = await get('/metrics', { headers: { accept: 'text/html, */*' } })
  assert.equal(await plain.text(), 'a 1\n')
})

test('only GET is allowed', async (t) => {
  const { get } = await serving(t, () => [])
  const answer = await get('/metrics', { method: 'POST', body: 'x' })
  assert.equal(answer.status, 405)
  assert.deepEqual(await answer.json(), { error: 'Method Not Allowed' })
})

test('a page that is worth it is compressed for those who accept that', async (t) => {
  const { get } = await serving(t, () => ['a 1\n'.repeat(1000)])
  for (const [accepted, chosen] of [
    ['deflate, gzip', 'gzip'],
    ['deflate;q=1, gzip;q=0.5', 'deflate'],
    ['br', 'br'],
  ] as const) {
    const compressed = await get('/metrics', { headers: { 'accept-encoding': accepted } })
    assert.equal(compressed.headers.get('content-encoding'), chosen)
    assert.equal(await compressed.text(), 'a 1\n'.repeat(1000))
  }
  const plain = await get('/metrics', { headers: { 'accept-encoding': 'gzip;q=0' } })
  assert.equal(plain.headers.get('content-encoding'), null)
})

test('a long page lets others have their turn while it is written', async (t) => {
  let turns = 0
  let isWriting = true
  const { get } = await serving(t, function* () {
    const until = (ms: number): void => {
      const end = performance.now() + ms
      while (performance.now() < end);
    }
    for (let i = 0; i < 4; i++) {
      until(5)
      yield `a ${turns}\n`
    }
    isWriting = false
  })
  const count = (): void => {
    turns++
    if (isWriting) setImmediate(count)
  }
  setImmediate(count)
  await (await get('/metrics')).text()
  assert.ok(turns >= 3)
})

test('a page that cannot be written is a 500 and a line in the log', async (t) => {
  const { get, log } = await serving(t, () => {
    throw new Error('broken')
  })
  assert.equal((await get('/metrics')).status, 500)
  assert.deepEqual(
    log.entries.filter(({ level }) => level === 'error').map(({ message, fields }) => [message, fields['reason']]),
    [['metrics page failed', 'broken']],
  )
})

test('a port that is taken is named, with what to do', async (t) => {
  const { port } = await serving(t, () => [])
  const dependencies = { clock: new SystemClock(), log: new MemoryLog(), formats: [plainText(() => [])] }
  const second = createMetricsPort(dependencies, { address: '127.0.0.1', port })
  await assert.rejects(second.listen(), { code: 'UNAVAILABLE', message: /--metrics-port/ })
  await second.close()
})

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { runPredict } from './predict.ts'

const answers: readonly (readonly [status: number, body: string, told: RegExp])[] = [
  [200, '{"predictions":[{"classes":[{"index":1,"score":0.5}]}]}', /: 1 0\.5\n/],
  [200, 'null', /: \n/],
  [200, '{"predictions":[null]}', /no prediction/],
  [200, '{"predictions":5}', /no prediction/],
  [200, '{"predictions":[{"classes":5}]}', /no prediction/],
  [200, '{"predictions":[{"classes":[null]}]}', /no prediction/],
  [200, '{"predictions":[{"values":5}]}', /no prediction/],
  [400, '{"error":"too large"}', /: too large\n/],
  [400, '{"error":{"message":"x"}}', /the server answered with status 400/],
  [502, '{"detail":"x"}', /the server answered with status 502/],
  [502, '<html>', /the server answered with status 502/],
]

async function temporaryFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-predict-'))
  t.after(() => rm(folder, { recursive: true }))
  return folder
}

type Answer = (body: string, response: ServerResponse, request: IncomingMessage) => void

async function startServer(t: TestContext, answer: Answer): Promise<string> {
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece: Buffer) => (body += String(piece)))
    request.on('end', () => answer(body, response, request))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function predict(url: string, ...args: string[]): Promise<{ readonly code: number; readonly output: string }> {
  let output = ''
  const write = (text: string): void => void (output += text)
  const code = await runPredict(['-m', 'm', '-u', url, '-c', '1', ...args], { stdout: write, stderr: write })
  return { code, output }
}

const answerOne: Answer = (_body, response) =>
  void response.end('{"predictions":[{"classes":[{"label":"a, \\"b\\"","index":1,"score":0.5}]}]}')

test('an answer of another form fails its own file, and the others go on', async (t) => {
  const folder = await temporaryFolder(t)
  for (const index of answers.keys()) await writeFile(path.join(folder, String(index).padStart(2, '0')), String(index))
  const url = await startServer(t, (body, response) => {
    const [status = 0, text = ''] = answers[Number(body)] ?? []
    response.writeHead(status).end(text)
  })
  const { code, output } = await predict(url, folder)
  const lines = output.split(`${folder}/`).slice(1)
  for (const [index, [, , told]] of answers.entries()) assert.match(lines[index] ?? '', told)
  assert.equal(code, 1)
})

test('a folder stands for its files and links to files, and any name is one cell and one line', async (t) => {
  const folder = await temporaryFolder(t)
  const pictures = path.join(folder, 'pictures')
  await mkdir(path.join(pictures, 'folder'), { recursive: true })
  const names = ['=a b', 'c,d', 'e"f', 'g\nh', 'č']
  for (const name of [...names, '.hidden']) await writeFile(path.join(pictures, name), 'pixels')
  await symlink('č', path.join(pictures, 'link'))
  await symlink('nowhere', path.join(pictures, 'lost'))
  await symlink('folder', path.join(pictures, 'to-folder'))
  await symlink('/dev/zero', path.join(pictures, 'to-device'))
  const [csv, jsonl] = [path.join(folder, 'out.csv'), path.join(folder, 'out.jsonl')]
  await writeFile(csv, 'lines of an earlier run\n'.repeat(100))
  const { code, output } = await predict(await startServer(t, answerOne), '--csv', csv, '--jsonl', jsonl, pictures)
  assert.equal(code, 1)
  assert.match(output, /^\S+\/lost: ENOENT.+\nTotal +7\n(.+\n){4}Success +6 \(85\.7 %\)\n$/)
  const lines = (await readFile(jsonl, 'utf8')).trim().split('\n')
  const files = lines.map((line) => (JSON.parse(line) as { file: string }).file)
  const places = [...names, 'link', 'lost'].map((name) => path.join(pictures, name))
  assert.deepEqual(new Set(files), new Set(places))
  const rows = (await readFile(csv, 'utf8')).replaceAll(/,[\d.]+,"a, ""b""",/g, ',…,"a, ""b""",')
  assert.ok(rows.startsWith('file,latency_ms,'))
  for (const [name, quote] of [
    ['=a b', ''],
    ['c,d', '"'],
    ['e""f', '"'],
    ['g\nh', '"'],
    ['č', ''],
    ['link', ''],
  ] as const) {
    // prettier-ignore
    const cell = `${quote}${path.join(pictures, name)}${quote}`
    assert.ok(rows.includes(`\n${cell},…,"a, ""b""",1,0.5,"a, ""b"" 0.5",\n`), `${cell} in ${rows}`)
  }
  const shown = await predict(await startServer(t, answerOne), path.join(pictures, 'g\nh'))
  assert.match(shown.output, /\/g\\x0ah: a, "b" 0\.5\n/)
})

test(
  'a name that is no UTF-8 is that of a file like any other in its folder',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const folder = await temporaryFolder(t)
    const inLatin1 = Buffer.concat([Buffer.from(folder), Buffer.from('/caf\xe9', 'latin1')])
    await writeFile(inLatin1, 'pixels')
    const { code, output } = await predict(await startServer(t, answerOne), folder)
    assert.deepEqual([code, output.split('\n')[0]], [0, `${folder}/caf\ufffd: a, "b" 0.5`])
  },
)

test('files for lines that cannot be written, or are uploads, are refused before the first upload', async (t) => {
  const folder = await temporaryFolder(t)
  const picture = path.join(folder, 'picture')
  await writeFile(picture, 'pixels')
  let uploads = 0
  const url = await startServer(t, (...call) => {
    uploads++
    answerOne(...call)
  })
  const [lost, lines] = [path.join(folder, 'nowhere/lines'), path.join(folder, 'lines')]
  for (const [args, told] of [
    [['--csv', picture], `--csv would replace '${picture}', which is one of the files to upload`],
    [['--csv', lost], `cannot write --csv '${lost}': ENOENT: no such file or directory, open '${lost}'`],
    [['--csv', `${folder}/./lines`, '--jsonl', lines], `--csv and --jsonl name the same file '${lines}'`],
    [['--header', 'a b: c'], "--header must be 'Name: value', got 'a b: c'"],
    [['--url', 'ftp://localhost'], "--url must be an address as http://localhost:8000, got 'ftp://localhost'"],
  ] as const) {
    const { code, output } = await predict(url, ...args, picture)
    assert.deepEqual([code, output.split('\n')[0]], [3, `galatea predict: ${told}`])
  }
  assert.deepEqual([uploads, await readFile(picture, 'utf8')], [0, 'pixels'])
  if (process.platform !== 'linux') return
  const full = await predict(url, '--csv', '/dev/full', picture)
  assert.match(full.output, /^galatea predict: cannot write '\/dev\/full': ENOSPC/)
  assert.equal(full.code, 1)
})

test('after a signal no other upload begins, and what was answered is written', async (t) => {
  const folder = await temporaryFolder(t)
  const pictures = path.join(folder, 'pictures')
  await mkdir(pictures)
  for (const name of ['a', 'b', 'c']) await writeFile(path.join(pictures, name), name)
  const url = await startServer(t, (body, response, request) => {
    if (body === 'b') process.emit('SIGTERM', 'SIGTERM')
    answerOne(body, response, request)
  })
  const listeners = process.listenerCount('SIGTERM')
  const jsonl = path.join(folder, 'lines')
  const { code, output } = await predict(url, '--jsonl', jsonl, pictures)
  assert.equal(code, 143)
  assert.match(output, /\ngalatea predict: ended after 2 of 3 files\n$/)
  assert.equal((await readFile(jsonl, 'utf8')).split('\n').length, 3)
  assert.equal(process.listenerCount('SIGTERM'), listeners)
})

test('a header replaces one that the command sets, and a server that gives no answer is told', async (t) => {
  const folder = await temporaryFolder(t)
  const text = path.join(folder, 'text')
  await writeFile(text, 'ahoj')
  const types: (string | undefined)[] = []
  const url = await startServer(t, (_body, _response, request) => types.push(request.headers['content-type']))
  const { code, output } = await predict(url, '--timeout-secs', '1', '-H', 'content-type: text/plain', text)
  assert.deepEqual([code, types], [1, ['text/plain']])
  assert.match(output, /text: there was no answer for 1 s: --timeout-secs\n/)
})

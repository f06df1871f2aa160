import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
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

test('an answer of another form fails its own file, and the others go on', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-predict-'))
  for (const index of answers.keys()) await writeFile(path.join(folder, String(index).padStart(2, '0')), String(index))
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (piece: Buffer) => (body += String(piece)))
    request.on('end', () => {
      const [status = 0, text = ''] = answers[Number(body)] ?? []
      response.writeHead(status).end(text)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let output = ''
  const write = (text: string): void => void (output += text)
  const code = await runPredict(['-m', 'm', '-u', url, '-c', '1', folder], { stdout: write, stderr: write })
  server.close()
  server.closeAllConnections()
  await rm(folder, { recursive: true })
  const lines = output.split(`${folder}/`).slice(1)
  for (const [index, [, , told]] of answers.entries()) assert.match(lines[index] ?? '', told)
  assert.equal(code, 1)
})

// Names that try to lead out, sent to a running server: in URLs and in the files of load requests.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { startServerProcess } from './server-process.ts'

const canaryText = 'the canary sings'
const config = `backend: "identity" max_batch_size: 8
  input { name: "INPUT0" data_type: TYPE_INT32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_INT32 dims: -1 }`
const overrideConfig = JSON.stringify({
  backend: 'identity',
  max_batch_size: 8,
  input: [{ name: 'INPUT0', data_type: 'TYPE_INT32', dims: [-1] }],
  output: [{ name: 'OUTPUT0', data_type: 'TYPE_INT32', dims: [-1] }],
})

let sandbox = ''
before(async () => {
  sandbox = await mkdtemp(path.join(tmpdir(), 'galatea-attacks-'))
  for (const folder of ['repository/m/1', 'canaries/1', 'uploads'])
    await mkdir(path.join(sandbox, folder), { recursive: true })
  await writeFile(path.join(sandbox, 'repository/m/config.pbtxt'), config)
  await writeFile(path.join(sandbox, 'canaries/config.pbtxt'), config)
  await writeFile(path.join(sandbox, 'canary'), canaryText)
})
after(() => rm(sandbox, { recursive: true, force: true }))

const climbs = [
  '..',
  '%2e%2e',
  '%2E%2E',
  '.%2e',
  '%252e%252e',
  '%c0%ae%c0%ae',
  '..%00',
  '%5c..',
  '....',
  '.',
  '%uff0e%uff0e',
]
const joins = ['/', '%2f', '%2F', '%5c', '\\', '//', '%252f', '/./', '%c0%af']
const goals = ['canaries', 'canary', 'repository%2fm', 'etc%2fpasswd', '%00', 'm']

const agent = new Agent({ keepAlive: true, maxSockets: 8 })

/** The path as it is, without the tidying that `fetch` does. */
async function send(
  port: number,
  method: string,
  target: string,
  body = '',
): Promise<{ status: number; text: string }> {
  const headers = { 'content-length': Buffer.byteLength(body) }
  const sent = request({ host: '127.0.0.1', port, method, path: target, agent, headers })
  sent.end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  const chunks = (await Array.fromAsync(answer)) as Buffer[]
  return { status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() }
}

test('no name in a URL or load request reads or writes anything outside the repository', async () => {
  const uploads = path.join(sandbox, 'uploads')
  await using server = await startServerProcess(
    [
      `--model-repository=${path.join(sandbox, 'repository')}`,
      '--model-control-mode=explicit',
      '--load-model=m',
      '--allow-model-uploads',
    ],
    { environment: { TMPDIR: uploads } },
  )
  const names = climbs.flatMap((climb) => joins.flatMap((join) => goals.map((goal) => `${climb}${join}${goal}`)))
  let cases = 0
  const attack = async (name: string, lane: number): Promise<void> => {
    for (const [method, target] of [
      ['POST', `/v2/repository/models/${name}/load`],
      ['GET', `/v2/models/${name}/config`],
    ] as const) {
      const { status, text } = await send(server.port, method, target)
      // `./m` and the like are the model itself.
      assert.ok(status >= 400 || /^(\.|%2e)?[/\\%]/i.test(name) || name.endsWith('m'), `${target}: ${status} ${text}`)
      assert.ok(!text.includes(canaryText) && !text.includes('canaries:'), target)
      cases++
    }
    const file = decodeURIComponentOrNot(name)
    const parameters = { config: overrideConfig, [`file:1/${file}`]: Buffer.from('evil').toString('base64') }
    const loaded = await send(
      server.port,
      'POST',
      `/v2/repository/models/up${lane}/load`,
      JSON.stringify({ parameters }),
    )
    if (/(^|[/\\])\.\.([/\\]|$)|\0|\\/.test(file)) assert.ok(loaded.status >= 400, `${file}: ${loaded.status}`)
    cases++
  }
  for (let start = 0; start < names.length; start += 8) await Promise.all(names.slice(start, start + 8).map(attack))
  assert.ok(cases > 1500, `${cases} cases`)
  agent.destroy()
  const index = await send(server.port, 'POST', '/v2/repository/index')
  assert.deepEqual(
    (JSON.parse(index.text) as { name: string }[]).map(({ name }) => name),
    ['m'],
  )
  await server.stop()
  assert.deepEqual((await readdir(sandbox)).sort(), ['canaries', 'canary', 'repository', 'uploads'])
  assert.equal(await readFile(path.join(sandbox, 'canary'), 'utf8'), canaryText)
  assert.deepEqual((await readdir(path.join(sandbox, 'repository'), { recursive: true })).sort(), [
    'm',
    'm/1',
    'm/config.pbtxt',
  ])
  assert.deepEqual(await readdir(uploads), [])
})

function decodeURIComponentOrNot(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

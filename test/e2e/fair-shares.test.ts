// Tenants of a real server in one queue that is full: the noisy one is refused, and the others are answered.

import assert from 'node:assert/strict'
import { appendFile } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { accessFolder, inferBody } from './access-fixture.ts'
import { startServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const rules = `
anonymous: { allow: [health, metrics] }
keys: keys.json
roles:
  caller: { allow: [inference] }
tenants:
  quiet: { weight: 2 }
  "*": { weight: 1 }
`

test('a full queue makes room for the tenant that has less in it, and refuses the one that has the most', async (t) => {
  const folder = await accessFolder(rules, ['m'])
  t.after(() => folder.remove())
  const delay = 'parameters { key: "execute_delay_ms" value { string_value: "100" } }\n'
  await appendFile(path.join(folder.root, 'models/m/config.pbtxt'), delay)
  const key = (name: string): Promise<string> => folder.key(name, '--role', 'caller', '--tenant', name)
  const [noisy, quiet] = [await key('noisy'), await key('quiet')]
  const server = await startServerProcess([...folder.flags, '--default-max-queue-size=20'])
  t.after(() => server.stop())
  const refusals: string[] = []
  const infer = async (credential: string): Promise<number> => {
    const headers = { 'x-api-key': credential }
    const answer = await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body: inferBody(1), headers })
    const text = await answer.text()
    if (answer.status !== 200) refusals.push(text)
    return answer.status
  }
  const flood = Array.from({ length: 60 }, () => infer(noisy))
  await until(() => refusals.length >= 30, 'the queue is full')
  const statuses = await Promise.all(Array.from({ length: 5 }, () => infer(quiet)))
  assert.deepEqual(statuses, [200, 200, 200, 200, 200])
  const answered = (await Promise.all(flood)).filter((status) => status === 200).length
  assert.ok(answered >= 10, `${answered} answers to the noisy tenant`)
  assert.match(refusals.join('\n'), /the queue of model 'm' is full, and tenant 'noisy' has more than its share in it/)
  const metrics = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  assert.match(metrics, /galatea_queue_refusals_total\{model="m",reason="fair_share",version="1"\} [1-9]/)
  assert.match(metrics, /galatea_tenant_share\{tenant="quiet"\} 0\.\d/)
})

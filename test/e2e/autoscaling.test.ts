// Instances that follow load on a real server: a burst loses no request, and a model that is loaded anew keeps its instances.

import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { until } from '../until.ts'
import { DelayRepository, delayRequest } from './delay-repository.ts'
import { startServerProcess } from './server-process.ts'

const parameter = (key: string, value: string): string =>
  `parameters { key: "${key}" value { string_value: "${value}" } }\n`

test('a burst brings instances, every request of it is answered, and a reload keeps the instances', async (context) => {
  const repository = await DelayRepository.create()
  context.after(() => repository[Symbol.asyncDispose]())
  await repository.addModel('slow', 100)
  const file = path.join(repository.path, 'slow/config.pbtxt')
  await writeFile(
    file,
    (await readFile(file, 'utf8')) + parameter('instances_min', '1') + parameter('instances_max', '4'),
  )
  const server = await startServerProcess([`--model-repository=${repository.path}`, '--model-control-mode=explicit', '--load-model=*']) // prettier-ignore
  context.after(() => server.stop())
  const config = async (): Promise<{ instance_group: { count: number }[] }> =>
    (await (await fetch(`${server.url}/v2/models/slow/config`)).json()) as { instance_group: { count: number }[] }
  assert.equal((await config()).instance_group[0]?.count, 1)
  const burst = { isOver: false }
  const answers = new Map<number, number>()
  const client = async (): Promise<void> => {
    while (!burst.isOver) {
      const { status } = await fetch(`${server.url}/v2/models/slow/infer`, { method: 'POST', body: delayRequest })
      answers.set(status, (answers.get(status) ?? 0) + 1)
    }
  }
  const clients = Array.from({ length: 12 }, client)
  await until(async () => (await config()).instance_group[0]?.count === 4, 'four instances', { everyMs: 100 })
  // A reload under load, with other files beside the model: the instances stay.
  await writeFile(file, (await readFile(file, 'utf8')) + 'version_policy { latest { num_versions: 1 } }\n')
  assert.equal((await fetch(`${server.url}/v2/repository/models/slow/load`, { method: 'POST' })).status, 200)
  assert.equal((await config()).instance_group[0]?.count, 4)
  burst.isOver = true
  await Promise.all(clients)
  assert.deepEqual([...answers.keys()], [200])
  const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  assert.match(page, /galatea_instances_max\{model="slow",version="1"\} 4/)
  assert.match(page, /galatea_instance_changes_total\{model="slow",reason="panic",version="1"\} [1-9]/)
  assert.match(page, /galatea_instances_ready\{model="slow",version="1"\} 4/)
  assert.match(server.output, /instances of model 'slow' version 1: 1 to \d after [\d.]+ s \(panic: demand is/)
})

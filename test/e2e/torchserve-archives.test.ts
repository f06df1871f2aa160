// What handlers of TorchServe's archives may rely on, with archives that are folders of the model store.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { torchserveListeners } from '../../src/options/torchserve-listeners.ts'
import type { TorchserveOptions } from '../../src/options/server-options.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { testPython } from './python-checks.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const handler = `
import os, sys
from ts.metrics.dimension import Dimension
from ts.metrics.metric_type_enum import MetricTypes
from ts.utils.util import PredictionException

class Handler:
    def initialize(self, context):
        metrics = context.metrics
        self.calls = metrics.add_metric_to_cache("Calls", "count", ["ModelName", "Kind"], MetricTypes.COUNTER)

    def handle(self, data, context):
        what = data[0]["body"].decode()
        if what == "file":
            return [open("words.txt").read()]
        if what == "exit":
            sys.exit(4)
        if what == "long":
            raise PredictionException("x" * 100000, 400)
        if what == "odd":
            raise PredictionException("odd", 0)
        if what == "count":
            self.calls.add_or_update(2, [context.model_name, "fast"])
            self.calls.add_or_update(1, ["too few"])
            context.metrics.add_size("Bytes", 7, None, "kB", [Dimension("Kind", "big")])
            try:
                context.metrics.add_time("Late", 1, None, "weeks")
            except Exception as error:
                return [type(error).__name__]
        return [what]
`
const failing =
  'class Failing:\n    def initialize(self, context): raise %\n    def handle(self, data, context): return data\n'
const manifest = (name: string, more: object = {}): string =>
  JSON.stringify({ runtime: 'python', model: { modelName: name, modelVersion: '1.0', handler: 'h.py', ...more } })

describe('an archive of TorchServe', () => {
  let repository: Awaited<ReturnType<typeof temporaryRepository>>
  let server: ServerProcess
  before(async () => {
    repository = await temporaryRepository({
      'own/MAR-INF/MANIFEST.json': manifest('own'),
      'own/h.py': handler,
      'own/words.txt': 'some words',
      'bare/around/h.py': 'def handle(data, context):\n    return [str(context.manifest) for _ in data or []]\n',
      'forgpu/MAR-INF/MANIFEST.json': manifest('forgpu', { configFile: 'c.yaml' }),
      'forgpu/h.py': 'def handle(data, context):\n    return ["ran" for _ in data or []]\n',
      'forgpu/c.yaml': 'deviceType: gpu\nminWorkers: 1\nmaxWorkers: 2\nstartupTimeout: 44\n',
      'broken/MAR-INF/MANIFEST.json': manifest('broken'),
      'broken/h.py': failing.replace('%', 'ValueError("no")'),
      'full/MAR-INF/MANIFEST.json': manifest('full'),
      'full/h.py': failing.replace('%', 'MemoryError("no")'),
    })
    const ports = ['inference', 'management', 'metrics', 'grpc-inference', 'grpc-management']
    server = await startServerProcess([
      '--allow-torchserve',
      '--torchserve-enable-model-api',
      ...ports.map((port) => `--torchserve-${port}-port=0`),
      `--torchserve-model-store=${repository.root}`,
      '--torchserve-model=own',
      '--torchserve-model=forgpu',
      '--torchserve-model-settings={"own":{"1.0":{"minWorkers":1,"batchSize":3,"maxBatchDelay":1}}}',
      `--backend-config=torchserve,interpreter=${testPython()}`,
    ])
  })
  after(async () => {
    await server?.stop()
    await repository?.remove()
  })

  const ask = async (
    port: string,
    target: string,
    init: RequestInit = {},
  ): Promise<{ status: number; text: string }> => {
    const answer = await fetch(`http://${server.furtherAddress(`TorchServe ${port}`)}${target}`, init)
    return { status: answer.status, text: await answer.text() }
  }
  const predict = (body: string, model = 'own'): Promise<{ status: number; text: string }> => {
    const headers = { 'Content-Type': 'application/octet-stream' }
    return ask('inference', `/predictions/${model}`, { method: 'POST', body, headers })
  }
  const manage = (method: string, target: string) => ask('management', target, { method })

  test('opens its own files by their names alone', async () => {
    assert.deepEqual(await predict('file'), { status: 200, text: 'some words' })
  })

  test('that ends its process, or fails with a long text or an odd code, tells no place on the disk and no cut status', async () => {
    const exited = await predict('exit')
    assert.deepEqual([exited.status, exited.text.includes('/')], [503, false])
    assert.match(exited.text, /"message": "Prediction failed"/)
    const long = await predict('long')
    assert.equal(long.status, 400)
    assert.match(long.text, /"type": "InternalServerException",\n {2}"message": "x{4096}"/)
    assert.deepEqual(JSON.parse((await predict('odd')).text), {
      code: 500,
      type: 'InternalServerException',
      message: 'odd',
    })
  })

  test('counts under the names of its dimensions, on the metrics page of TorchServe', async () => {
    assert.equal((await predict('count')).text, 'MetricsCacheValueError')
    const { text } = await ask('metrics', '/metrics')
    assert.match(text, /^# TYPE Calls counter\nCalls\{Kind="fast",ModelName="own",Hostname="[^"]+",\} 2\.0$/m)
    assert.match(text, /^Bytes\{Kind="big",Level="Model",ModelName="own",Hostname="[^"]+",\} 7\.0$/m)
    assert.doesNotMatch(text, /too few/)
  })

  test('has the numbers of the server where it says none, and one for GPUs runs on the CPU of a machine without', async () => {
    const described = async (name: string): Promise<Record<string, unknown>> =>
      (JSON.parse((await manage('GET', `/models/${name}`)).text) as Record<string, unknown>[])[0] ?? {}
    const own = await described('own')
    assert.deepEqual([own['batchSize'], own['maxBatchDelay'], own['minWorkers']], [3, 1, 1])
    assert.deepEqual(await predict('x', 'forgpu'), { status: 200, text: 'ran' })
    const { startupTimeout, maxWorkers } = await described('forgpu')
    assert.deepEqual([startupTimeout, maxWorkers], [44, 2])
  })

  test('without a manifest, in a folder around it, needs the handler of the call; a null is its manifest', async () => {
    assert.match((await manage('POST', '/models?url=bare&model_name=bare')).text, /names no handler/)
    assert.equal((await manage('POST', '/models?url=bare&handler=h.py&initial_workers=1')).status, 200)
    assert.deepEqual(await predict('x', 'bare'), { status: 200, text: 'None' })
  })

  test('that does not start is refused in few words, and a scaling that fails leaves the server healthy', async () => {
    const answers = [
      ['POST', '/models?url=broken&initial_workers=1', 500, 'model broken version: 1.0'],
      ['POST', '/models?url=full&initial_workers=1', 507, 'model full version: 1.0'],
      ['POST', '/models?url=broken', 200, ''],
      ['PUT', '/models/broken?min_worker=1&synchronous=true', 500, 'model broken version: null'],
    ] as const
    for (const [method, target, status, which] of answers) {
      const answer = await manage(method, target)
      assert.equal(answer.status, status, answer.text)
      if (which !== '') {
        const message = `Failed to start workers for ${which}`
        assert.deepEqual(JSON.parse(answer.text), { code: status, type: 'InternalServerException', message })
      }
    }
    assert.match((await manage('GET', '/models/broken')).text, /"minWorkers": 0/)
    assert.equal((await ask('inference', '/ping')).status, 200)
    assert.equal((await predict('x', 'broken')).status, 503)
  })

  test('is not the model store itself', async () => {
    for (const url of ['.', './', encodeURIComponent(repository.root), 'own/..']) {
      assert.match((await manage('POST', `/models?url=${url}&handler=h.py`)).text, /ModelNotFoundException/, url)
    }
  })
})

test("TorchServe's HTTP ports that have one address and one number are one port, which all of its paths are on", async () => {
  const at = { address: 'a', managementAddress: 'a', metricsAddress: 'b', port: 1, managementPort: 1, metricsPort: 1 }
  const listeners = torchserveListeners(at as TorchserveOptions)
  assert.deepEqual(listeners, [
    { kinds: ['inference', 'management'], address: 'a', port: 1 },
    { kinds: ['metrics'], address: 'b', port: 1 },
  ])
  const free = torchserveListeners({ ...at, metricsAddress: 'a', port: 0, managementPort: 0 } as TorchserveOptions)
  assert.deepEqual(free.map(({ kinds }) => kinds.length), [1, 1, 1]) // prettier-ignore
})

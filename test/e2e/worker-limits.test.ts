// How long an execution may take, and how soon a worker that ended is back.

import assert from 'node:assert/strict'
import test, { type TestContext } from 'node:test'
import { createEngine, type EmbeddedEngine, type EmbeddedEngineOptions } from '../../src/embedded-engine.ts'
import { MemoryLog } from '../fakes/memory-log.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'

const python = process.env['GALATEA_TEST_PYTHON'] ?? 'python3'

const model = `
import os, threading
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        if pb_utils.get_input_tensor_by_name(requests[0], "STUCK").as_numpy()[0]:
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        pid = pb_utils.Tensor("PID", np.array([os.getpid()], dtype=np.int64))
        return [pb_utils.InferenceResponse([pid]) for _ in requests]
`

async function engineOf(context: TestContext, options: Partial<EmbeddedEngineOptions>): Promise<EmbeddedEngine> {
  const { root, remove } = await temporaryRepository({
    'm/config.pbtxt': `backend: "python"
      input { name: "STUCK" data_type: TYPE_BOOL dims: 1 }
      output { name: "PID" data_type: TYPE_INT64 dims: 1 }`,
    'm/1/model.py': model,
  })
  const backendConfig = new Map([['python', new Map([['interpreter', python]])]])
  const engine = await createEngine({ modelRepository: root, backendConfig, ...options })
  context.after(async () => {
    await engine.close()
    await remove()
  })
  return engine
}

const ask = async (engine: EmbeddedEngine, isStuck: boolean): Promise<number> => {
  const { outputs } = await engine.infer('m', { STUCK: { shape: [1], data: Uint8Array.of(isStuck ? 1 : 0) } })
  return Number((outputs['PID'] as { data: BigInt64Array }).data[0])
}

test('--model-max-execution-secs ends an execution of a model that sets no limit of its own', async (context) => {
  const engine = await engineOf(context, { maxExecutionSecs: 1 })
  await assert.rejects(ask(engine, true), /execution took longer than max_execution_ms \(1000\)/)
  const { config } = engine.engine.findVersion('m', '')
  assert.equal(config.parameters.has('max_execution_ms'), false, 'clients see the configuration as it was written')
  await until(() => engine.engine.isModelReady('m', ''), 'the new worker')
  assert.ok((await ask(engine, false)) > 0)
})

test('a worker that served is replaced without a pause, however often it is killed', async (context) => {
  const log = new MemoryLog()
  const engine = await engineOf(context, { log })
  const kills = 5
  for (let kill = 0; kill < kills; kill++) {
    process.kill(await ask(engine, false), 'SIGKILL')
    await until(() => !engine.engine.isModelReady('m', ''), 'its death', { everyMs: 1 })
    await until(() => engine.engine.isModelReady('m', ''), 'the new worker')
  }
  const ended = log.entries.filter(({ message }) => message === 'worker ended, it will be restarted')
  assert.deepEqual(
    ended.map(({ fields }) => fields['delay_ms']),
    Array.from({ length: kills }, () => 0),
  )
})

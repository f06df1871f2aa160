// `--host-policy` on a real server: the instances of a model run on the cores of their policy, and the rest of the server on all.

import assert from 'node:assert/strict'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { parseCoreList } from '../../src/config/host-policy.ts'
import { addSubModel, buildOnnx } from '../fixtures/onnx/build-onnx.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'
import { testPython } from './python-checks.ts'
import { startServerProcess } from './server-process.ts'

const allowed = async (status: string): Promise<string> =>
  /^Cpus_allowed_list:\s*(\S+)$/m.exec(await readFile(status, 'utf8').catch(() => ''))?.[1] ?? ''

const script = `import { readFileSync } from 'node:fs'
import { fromStrings } from 'galatea/model'
export const config = { maxBatchSize: 0, input: [{ name: 'X', dataType: 'BYTES', dims: [1] }], output: [{ name: 'Y', dataType: 'BYTES', dims: [1] }] }
export const infer = () => [fromStrings('Y', [1], [/^Cpus_allowed_list:\\s*(\\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]])]
`

const python = `import os
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        cores = ",".join(str(core) for core in os.sched_getaffinity(0))
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([cores], dtype=object))]) for _ in requests]
`

test('instances run on the cores of their policy', { skip: process.platform !== 'linux' }, async (context) => {
  const all = await allowed('/proc/self/status')
  const [first = 0, last = first] = [parseCoreList(all)?.[0], parseCoreList(all)?.at(-1)]
  const repository = await temporaryRepository({
    'by_device/1/model.ts': script,
    'named/1/model.ts': script,
    'named/config.pbtxt': 'backend: "typescript"\ninstance_group { kind: KIND_CPU host_policy: "mine" }\n',
    'in_python/1/model.py': python,
    'in_python/config.pbtxt':
      'backend: "python"\ninput { name: "X" data_type: TYPE_STRING dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_STRING dims: [ 1 ] }\ninstance_group { kind: KIND_CPU host_policy: "mine" }\n',
    'sums/1/': '',
    'sums/config.pbtxt':
      'backend: "onnxruntime"\nmax_batch_size: 8\ninstance_group { kind: KIND_CPU host_policy: "mine" }\n',
  })
  context.after(() => repository.remove())
  await writeFile(path.join(repository.root, 'sums/1/model.onnx'), buildOnnx(addSubModel('batch', 'INT32')))
  const server = await startServerProcess([
    `--model-repository=${repository.root}`,
    `--backend-config=python,interpreter=${testPython()}`,
    `--host-policy=cpu,cpu-cores=${first}`,
    `--host-policy=mine,cpu-cores=${last}`,
  ])
  context.after(() => server.stop())
  const infer = async (model: string, inputs: readonly object[]): Promise<unknown[]> => {
    const answer = await fetch(`${server.url}/v2/models/${model}/infer`, {
      method: 'POST',
      body: JSON.stringify({ inputs }),
    })
    const body = (await answer.json()) as { outputs?: { data: unknown[] }[] }
    assert.equal(answer.status, 200, JSON.stringify(body))
    return body.outputs?.[0]?.data ?? []
  }
  const text = { name: 'X', datatype: 'BYTES', shape: [1], data: ['x'] }
  assert.deepEqual(await infer('by_device', [text]), [String(first)])
  assert.deepEqual(await infer('named', [text]), [String(last)])
  assert.deepEqual(await infer('in_python', [text]), [String(last)])
  const sixteen = (name: string, value: number) =>
    ({ name, datatype: 'INT32', shape: [1, 16], data: Array.from({ length: 16 }, () => value) }) // prettier-ignore
  // The thread that ran this keeps its cores until it runs something else.
  assert.equal((await infer('sums', [sixteen('INPUT0', 3), sixteen('INPUT1', 4)]))[0], 7)
  const tasks = `/proc/${server.pid}/task`
  const bound = async (): Promise<boolean> => {
    const lists = await Promise.all((await readdir(tasks)).map((thread) => allowed(`${tasks}/${thread}/status`)))
    return lists.includes(String(last))
  }
  await until(bound, 'a thread on the core of the policy', { everyMs: 50 })
  assert.equal(await allowed(`/proc/${server.pid}/status`), all, 'the server itself runs on all cores')
})

test('a policy that this machine cannot keep ends the start with what is wrong', async () => {
  const started = startServerProcess([`--model-repository=${import.meta.dirname}`, '--host-policy=cpu,cpu-cores=1023'])
  await assert.rejects(started, /--host-policy=cpu,cpu-cores=1023: (the server cannot use core 1023|.*only on Linux)/)
})

// NVIDIA's own load generator against models that read the parameters of their requests: it sends none over most of its ways.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { requireTool } from '../tool.ts'
import { imports, testPython } from './python-models-under-test.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'

const tensors =
  'input { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] }'

const models = {
  scaled: {
    config: `backend: "python" max_batch_size: 8 ${tensors} dynamic_batching { }`,
    code: `import json
${imports}
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT",
            pb_utils.get_input_tensor_by_name(r, "IN").as_numpy() * json.loads(r.parameters()).get("factor", 1))])
            for r in requests]
`,
  },
  streamed: {
    config: `backend: "python" max_batch_size: 0 ${tensors} model_transaction_policy { decoupled: true }`,
    code: `import json
${imports}
class TritonPythonModel:
    def execute(self, requests):
        for r in requests:
            json.loads(r.parameters())
            output = pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())
            r.get_response_sender().send(pb_utils.InferenceResponse([output]),
                flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`,
  },
}

const ways: readonly (readonly [what: string, model: keyof typeof models, flags: readonly string[]])[] = [
  ['HTTP', 'scaled', ['-i', 'http']],
  ['HTTP, asynchronous, four rows', 'scaled', ['-i', 'http', '-a', '-b', '4']],
  ['gRPC', 'scaled', ['-i', 'grpc']],
  ['HTTP with shared memory', 'scaled', ['-i', 'http', '--shared-memory', 'system']],
  ['gRPC with shared memory', 'scaled', ['-i', 'grpc', '--shared-memory', 'system']],
  ['a gRPC stream', 'scaled', ['-i', 'grpc', '--streaming']],
  ['a gRPC stream of a decoupled model', 'streamed', ['-i', 'grpc', '--streaming']],
]

/** Three short windows, whatever they differ by: this test is about answers, not about speed. */
const shortRun = ['--measurement-mode', 'count_windows', '--measurement-request-count', '50', '-s', '999', '-r', '3']

describe('perf_analyzer measures a model that reads its parameters', () => {
  let server: ServerProcess
  let program = ''
  let root = ''

  before(async () => {
    program = await requireTool('perf_analyzer')
    root = await mkdtemp(path.join(tmpdir(), 'galatea-analyzed-'))
    for (const [name, { config, code }] of Object.entries(models)) {
      await mkdir(path.join(root, name, '1'), { recursive: true })
      await writeFile(path.join(root, name, 'config.pbtxt'), config)
      await writeFile(path.join(root, name, '1/model.py'), code)
    }
    server = await startServerProcess([
      `--model-repository=${root}`,
      '--allow-client-shared-memory=true',
      `--backend-config=python,interpreter=${testPython}`,
    ])
  })

  after(async () => {
    await server.stop()
    await rm(root, { recursive: true, force: true })
  })

  for (const [what, model, flags] of ways) {
    test(`over ${what}`, async () => {
      const port = flags.includes('grpc') ? server.grpcPort : server.port
      const libraries = globSync(path.join(program, '../../lib/python*/site-packages/nvidia/cuda_runtime/lib'))
      const { stdout } = await promisify(execFile)(
        program,
        ['-m', model, '-u', `127.0.0.1:${port}`, '--concurrency-range', '4', ...flags, ...shortRun],
        { env: { ...process.env, LD_LIBRARY_PATH: libraries.join(':') }, timeout: 60_000 },
      )
      assert.match(stdout, /Concurrency: 4, throughput: [1-9][\d.]* infer\/sec/)
      // The server's own statistics stand beside the client's.
      assert.match(stdout, /Avg request latency: \d+ usec/)
    })
  }
})

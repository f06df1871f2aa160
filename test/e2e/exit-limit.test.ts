// `--exit-timeout-secs` is the most that an exit takes, whatever a model does.

import { writeFile, mkdir } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { buildOnnx, int64s, type OnnxModel } from '../fixtures/onnx/build-onnx.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { isRunning } from '../../src/base/is-running.ts'
import { startServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const python = process.env['GALATEA_TEST_PYTHON'] ?? 'python3'

const config = (backend: string): string => `
  backend: "${backend}"
  input { name: "X" data_type: TYPE_INT64 dims: 1 }
  output { name: "Y" data_type: TYPE_INT64 dims: 1 }`

const pythonModel = (methods: string): Record<string, string> => ({
  'm/config.pbtxt': config('python'),
  'm/1/model.py': `
import ctypes, os, signal, sys, time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        print("worker %d" % os.getpid())
${methods.replace(/^/gm, '    ')}
`,
})

const stuckInC = 'ctypes.PyDLL(None).sleep(1000)'

/** Adds up to INT64's largest number, in one run. */
const endless: OnnxModel = {
  inputs: [{ name: 'X', type: 'INT64', shape: [1] }],
  outputs: [{ name: 'Y', type: 'INT64', shape: [1] }],
  initializers: [
    { name: 'most', type: 'INT64', dims: [], raw: int64s(2 ** 53 - 1) },
    { name: 'go', type: 'BOOL', dims: [], raw: Uint8Array.of(1) },
  ],
  nodes: [
    {
      op: 'Loop',
      inputs: ['most', 'go', 'X'],
      outputs: ['Y'],
      attributes: [
        {
          name: 'body',
          graph: {
            inputs: [
              { name: 'i', type: 'INT64', shape: [] },
              { name: 'in', type: 'BOOL', shape: [] },
              { name: 'sum', type: 'INT64', shape: [1] },
            ],
            outputs: [
              { name: 'out', type: 'BOOL', shape: [] },
              { name: 'next', type: 'INT64', shape: [1] },
            ],
            nodes: [
              { op: 'Identity', inputs: ['in'], outputs: ['out'] },
              { op: 'Add', inputs: ['sum', 'i'], outputs: ['next'] },
            ],
          },
        },
      ],
    },
  ],
}

type Case = {
  readonly files: Record<string, string>
  readonly onnx?: OnnxModel
  readonly asks?: boolean
  /** `infer` unless it says otherwise. */
  readonly route?: string
  readonly loads?: boolean
  /** What the model prints before the exit begins. */
  readonly says?: string
}

const cases: Readonly<Record<string, Case>> = {
  'a Python model stuck in C, with the lock of the interpreter': {
    files: pythonModel(`def execute(self, requests):\n    ${stuckInC}`),
    asks: true,
  },
  'a Python model that ignores SIGTERM and hangs in finalize': {
    files: pythonModel(
      'def execute(self, requests):\n    pass\ndef finalize(self):\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(1000)',
    ),
  },
  'a Python model that loads for ever': {
    files: {
      ...pythonModel('def execute(self, requests):\n    pass'),
      'late/config.pbtxt': config('python'),
      'late/1/model.py': `import time\nclass TritonPythonModel:\n    def initialize(self, args):\n        print("loading for ever")\n        time.sleep(1000)\n`,
    },
    loads: true,
    says: 'loading for ever',
  },
  'a Python model with a child of its own session that keeps the pipes, and a thread that never ends': {
    files: pythonModel(
      [
        'def execute(self, requests):',
        '    import subprocess, threading',
        '    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)',
        '    print("stray %d" % child.pid)',
        '    threading.Thread(target=time.sleep, args=[1000]).start()',
        '    return [pb_utils.InferenceResponse([]) for _ in requests]',
      ].join('\n'),
    ),
    asks: true,
    says: 'stray ',
  },
  'a Python model that answers without end': {
    files: {
      'm/config.pbtxt': `${config('python')} model_transaction_policy { decoupled: true }`,
      'm/1/model.py': `import numpy
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        sender = requests[0].get_response_sender()
        while True:
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", numpy.zeros(1, numpy.int64))]))
`,
    },
    asks: true,
    route: 'generate_stream',
  },
  'a TypeScript model whose finalize never ends': {
    files: {
      'm/config.pbtxt': config('typescript'),
      'm/1/model.ts':
        'export const execute = () => []; export const finalize = () => new Promise(() => setInterval(() => {}, 1000))',
    },
  },
  'a TypeScript thread in an endless loop': {
    files: {
      'm/config.pbtxt': config('typescript'),
      'm/1/model.ts': 'export const execute = () => { console.log("looping"); for (;;); }',
    },
    asks: true,
  },
  'a TypeScript process in an endless loop': {
    files: {
      'm/config.pbtxt': `${config('typescript')} parameters { key: "isolation" value { string_value: "process" } }`,
      'm/1/model.ts': 'export const execute = () => { console.log("looping"); for (;;); }',
    },
    asks: true,
  },
  'an ONNX run without end': { files: { 'm/config.pbtxt': config('onnxruntime') }, onnx: endless, asks: true },
}

const inferBody = '{"inputs":[{"name":"X","datatype":"INT64","shape":[1],"data":[1]}]}'

for (const [what, { files, onnx, asks = false, route = 'infer', loads = false, says }] of Object.entries(cases)) {
  // What hangs does so for 1000 seconds: an exit that waits for it does not end before the test is given up.
  test(`an exit takes no longer than it may: ${what}`, { timeout: 300_000 }, async (context) => {
    const { root, remove } = await temporaryRepository(files)
    context.after(remove)
    if (onnx !== undefined) {
      await mkdir(path.join(root, 'm/1'), { recursive: true })
      await writeFile(path.join(root, 'm/1/model.onnx'), buildOnnx(onnx))
    }
    const server = await startServerProcess([
      `--model-repository=${root}`,
      '--exit-timeout-secs=1',
      `--backend-config=python,interpreter=${python}`,
      '--model-control-mode=explicit',
      '--load-model=m',
    ])
    if (asks) {
      const body = route === 'infer' ? inferBody : '{"X":1}'
      void fetch(`${server.url}/v2/models/m/${route}`, { method: 'POST', body }).catch(() => undefined)
      // The server has the request: it has answered questions that were asked later.
      for (let i = 0; i < 3; i++) await fetch(`${server.url}/v2/health/live`)
    }
    if (loads) void fetch(`${server.url}/v2/repository/models/late/load`, { method: 'POST' }).catch(() => undefined)
    if (says !== undefined) await server.said(says)
    const worker = Number(/worker (\d+)/.exec(server.output)?.[1] ?? 0)
    await server.stop()
    const stray = /stray (\d+)/.exec(server.output)?.[1]
    if (stray !== undefined) process.kill(Number(stray))
    if (worker !== 0) await until(() => !isRunning(worker), 'the end of the worker')
  })
}

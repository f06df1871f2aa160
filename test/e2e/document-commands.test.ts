// What the documents show to paste does what they say: each is run from its first command to its last.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { copyFile, cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { testDocument, type DocumentExpectation } from './document-commands.ts'
import { exampleModels, projectRoot } from './server-process.ts'

const ownModel = path.join(exampleModels, 'digits/1/model.onnx')
const ownFile =
  (name: string, source = ownModel) =>
  (folder: string): Promise<void> =>
    copyFile(path.resolve(projectRoot, source), path.join(folder, name))
const archive = path.join(projectRoot, 'test/fixtures/torchserve/archives/function.mar')

const ownRepository = (folder: string): Promise<void> =>
  cp(exampleModels, path.join(folder, 'models'), { recursive: true })

const tensorEcho = `backend: "identity"
max_batch_size: 1
input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }
`

const documents: Readonly<Record<string, DocumentExpectation>> = {
  'docs/guide/quickstart.md': {
    prepare: ownFile('model.onnx'),
    answers: [
      /"name":"simple"/,
      /\[\[ 1 {2}2 {2}3/,
      /pixels \| FP32 \| \[batch, 64\]/,
      /0 errors, 0 warnings in 1 model/,
    ],
  },
  'docs/guide/onnx-models.md': { prepare: ownFile('resnet50.onnx'), answers: [/"name":"resnet50"/, /operator sets/] },
  'docs/guide/python-models.md': { answers: [/"OUTPUT0".*"data":\[5.0,5.0,5.0,5.0\]/] },
  'docs/guide/typescript-models.md': { answers: [/"data":\["HELLO"\]/] },
  'docs/guide/custom-backends.md': { answers: [/"data":\[2.0,4.0,6.0\]/] },
  'docs/guide/slow-model.md': { answers: [/"queue":\{"count":6/] },
  'docs/guide/batching.md': { answers: Array.from({ length: 8 }, () => /"ROWS".*?"data":\[8\]/) },
  'docs/guide/overload.md': {
    answers: [
      ...Array.from({ length: 3 }, () => /"data":\[1.0\]/),
      ...Array.from({ length: 3 }, () => /Exceeds maximum queue size/),
    ],
    showsErrors: true,
  },
  'docs/guide/ensembles.md': { answers: [/"WORDS".*"to","be","or","not","to","be".*"COUNT".*"data":\[4\]/] },
  'docs/guide/sequences.md': { answers: [/"data":\[5\]/, /"data":\[11\]/, /"data":\[18\]/, /"data":\[111\]/] },
  'docs/guide/clients.md': {
    prepare: ownRepository,
    answers: [/\[\[ 0 {2}2 {2}4/, /"name":"pixels"/, /"data":\[1,2,3,4/],
  },
  'docs/guide/generate.md': { answers: [/"TIME"/] },
  'docs/guide/kserve-v1.md': { answers: [/^\{"predictions":\[\{"OUTPUT0":\[2,3,4,5.*"OUTPUT1":\[0,1,2/] },
  'docs/guide/moving-from-tensorflow-serving.md': { answers: [/"OUTPUT0": \[2, 3, 4, 5/] },
  'docs/guide/moving-from-torchserve.md': {
    prepare: async (folder) => {
      await mkdir(path.join(folder, 'model_store'))
      await copyFile(archive, path.join(folder, 'model_store/resnet.mar'))
      await writeFile(path.join(folder, 'picture.jpg'), 'any bytes')
    },
    answers: [/"status": "Healthy"/, /^function loaded 1/, /"modelName": "resnet"/, /"data":\["function loaded 1"\]/],
  },
  'docs/guide/moving-from-flask.md': {
    prepare: async (folder) => {
      await ownFile('digits.onnx')(folder)
      await ownFile('two.png', 'examples/images/two.png')(folder)
    },
    answers: [/"file":"two.png","classes":\[\{"index":2,/, /"predictions":\[\[/, /"mood":"good"/],
  },
  'docs/guide/predict.md': {
    serve: ['--examples'],
    prepare: (folder) =>
      cp(path.join(projectRoot, 'examples/images'), path.join(folder, 'examples/images'), { recursive: true }),
    answers: [/"file":"two.png","classes":\[\{"label":"two"/, /^Success +10 \(100.0 %\)/],
  },
  'docs/guide/model-repository.md': {
    prepare: ownRepository,
    answers: [/"name":"digits","version":"1","state":"READY"/],
  },
  'docs/guide/updating-models.md': {
    prepare: async (folder) => {
      await ownRepository(folder)
      await ownFile('better.onnx')(folder)
    },
    answers: [],
  },
  'docs/guide/check-a-repository.md': { prepare: ownRepository, answers: [/0 errors, 0 warnings in 3 models/] },
  'docs/guide/monitoring.md': { answers: [/nv_inference_count\{model="simple"/, /"model_stats"/] },
  'docs/guide/tracing.md': { prepare: ownRepository, answers: [/"trace_rate":"1"/] },
  'docs/guide/logging.md': { prepare: ownRepository, answers: [/"log_verbose_level":1/, /"log_format":"json"/] },
  'docs/guide/health.md': {
    prepare: ownRepository,
    serve: ['--examples'],
    answers: [/HTTP\/1.1 200 OK/, /HTTP\/1.1 200 OK/, /"ready":true/],
  },
  'docs/guide/who-may-call.md': {
    prepare: ownRepository,
    answers: [
      /"name":"digits"/,
      /may not use 'model-config' of model 'simple'/,
      /no credentials/,
      /"principal":"web-1"/,
      /revoked: key/,
    ],
    showsErrors: true,
  },
  'docs/guide/limits-and-quotas.md': {
    prepare: ownRepository,
    answers: [/"requests";q=2;w=60/, /429 Too Many Requests/, /"tenant":"web"/, /"currency":"EUR"/],
    showsErrors: true,
  },
  'docs/guide/troubleshooting.md': { serve: ['--examples'], answers: [/"ready":true/] },
  'docs/guide/sizing.md': { serve: ['--examples'], answers: [/"rss_bytes"/] },
  'docs/guide/deployment.md': { prepare: ownRepository, answers: [/0 errors/, /ready: 200/] },
  'docs/guide/hardening.md': {
    prepare: ownRepository,
    answers: [
      /^other host: (?:400|403|421)$/,
      /^own host: 200$/,
      /^without the key: 403$/,
      /^with the key: 200$/,
      /^foreign page: 403$/,
      /^galatea_client_memory_limit_bytes 268435456$/,
      /0 errors, 0 warnings/,
      /^ready: 200$/,
    ],
  },
  'docs/guide/registry.md': {
    prepare: async (folder) => {
      await ownRepository(folder)
      await cp(path.join(folder, 'models/digits/1'), path.join(folder, 'models/digits/2'), { recursive: true })
    },
    answers: [/"name":"digits"/, /^[0-9a-f]{64} {2}-$/m],
  },
  'docs/guide/shared-memory.md': {
    prepare: async (folder) => {
      await mkdir(path.join(folder, 'models/my_model/1'), { recursive: true })
      await writeFile(path.join(folder, 'models/my_model/config.pbtxt'), tensorEcho)
    },
    answers: [/\[\[0\.\d+ /],
  },
  'docs/reference/http.md': {
    serve: ['--examples'],
    answers: [/"data":\[2,3,4,5/, /"name":"simple"/, /HTTP\/1.1 200 OK/],
  },
  'docs/reference/init.md': {
    answers: [/0 errors, 0 warnings in 4 models/, /"data":\["good"\]/, /0 errors, 0 warnings in 1 model /],
  },
  'docs/reference/grpc.md': { serve: ['--examples'], answers: [/\[\[2 2 2/] },
  'docs/reference/errors.md': { serve: ['--examples'], answers: [/unknown model/], showsErrors: true },
}

test('docs/guide/embedding.md: its first program runs', async () => {
  const [, program = ''] =
    /```ts\n([\s\S]*?)```/.exec(readFileSync(path.join(projectRoot, 'docs/guide/embedding.md'), 'utf8')) ?? []
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-embedding-'))
  try {
    await ownRepository(folder)
    const index = pathToFileURL(path.join(projectRoot, 'src/index.ts')).href
    await writeFile(path.join(folder, 'program.ts'), program.replace("from 'galatea'", `from '${index}'`))
    const { stdout } = await promisify(execFile)(process.execPath, ['program.ts'], { cwd: folder })
    assert.match(stdout, /^Int32Array\(16\) \[\s+1, +2, +3,/)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

for (const [file, expected] of Object.entries(documents)) testDocument(file, expected)

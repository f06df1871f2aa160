// Triton's own backends, unmodified, asked by tritonclient.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { tritonBackends } from '../fixtures/native/triton-backends.ts'
import { askTritonCase, tritonCases, writeTritonModels, type TritonAnswer } from '../fixtures/native/triton-cases.ts'
import { reportPythonChecks } from './python-checks.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

const { directory, whyNot } = tritonBackends()
/** Triton's own libtritonserver.so. */
const tritonServer = process.env['GALATEA_TRITON_SERVER'] ?? ''
const whyNoServer = tritonServer === '' ? 'GALATEA_TRITON_SERVER names no libtritonserver.so' : false
const answersFile = path.join(import.meta.dirname, '../fixtures/native/triton-answers.json')

const batched = `max_batch_size: 8
dynamic_batching { }
`
const configs: Readonly<Record<string, string>> = {
  identity: `${batched}
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "INPUT2" data_type: TYPE_INT32 dims: [ 3 ] optional: true } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_STRING dims: [ -1 ] },
  { name: "OUTPUT2" data_type: TYPE_INT32 dims: [ 3 ] } ]`,
  repeat: `model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] }, { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] },
  { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }, { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]`,
  square: `model_transaction_policy { decoupled: true }
input { name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }`,
  // Everything else is in the file of the model.
  onnxruntime: '',
}

describe("Triton's own backends", { skip: whyNot === '' ? false : whyNot }, () => {
  let folder: string
  let server: ServerProcess
  const has = (name: string): boolean => fs.existsSync(path.join(directory, name, `libtriton_${name}.so`))

  before(async () => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-triton-backends-'))
    for (const [name, config] of Object.entries(configs).filter(([each]) => has(each))) {
      const version = path.join(folder, name, '1')
      fs.mkdirSync(version, { recursive: true })
      fs.writeFileSync(path.join(folder, name, 'config.pbtxt'), `backend: "${name}"\n${config}\n`)
      if (name === 'onnxruntime')
        fs.copyFileSync(path.join(exampleModels, 'simple/1/model.onnx'), `${version}/model.onnx`)
    }
    server = await startServerProcess([`--model-repository=${folder}`, `--backend-directory=${directory}`])
  })
  after(async () => {
    await server?.stop()
    fs.rmSync(folder, { recursive: true, force: true })
  })

  test('answer as they do under Triton', async (t) => {
    assert.ok(has('identity'), `there is no identity backend in ${directory}`)
    await reportPythonChecks(t, 'triton_backends_client.py', server.grpcAddress)
  })

  test("count on the page of the server's metrics", async () => {
    const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
    assert.match(page, /input_byte_size_counter\{model="identity",version="1"\} [1-9]/)
  })

  /** Asks a server with these flags all that a real Triton was asked, and compares the answers. */
  async function compareWithRecorded(
    t: TestContext,
    more: readonly string[],
    isCompared: (name: string) => boolean,
  ): Promise<void> {
    const recorded = JSON.parse(fs.readFileSync(answersFile, 'utf8')) as Record<string, TritonAnswer[]>
    const models = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-triton-cases-'))
    t.after(() => fs.rmSync(models, { recursive: true, force: true }))
    writeTritonModels(models, has, path.join(exampleModels, 'simple/1/model.onnx'))
    const flags = [`--model-repository=${models}`, `--backend-directory=${directory}`, '--triton-defaults', ...more]
    await using alike = await startServerProcess(flags)
    // One after the other: the counts at the end are of all before.
    for (const [name, asked] of Object.entries(tritonCases)) {
      if (!fs.existsSync(path.join(models, asked.model)) || !isCompared(name)) continue
      assert.deepEqual(await askTritonCase(`127.0.0.1:${alike.port}`, asked), recorded[name], name)
    }
  }

  test('answer, complete configurations and count as under a real Triton', (t) =>
    compareWithRecorded(t, [], () => true))

  test("answer alike where Triton's own server runs them in a host", { skip: whyNoServer }, (t) => {
    const flags = Object.keys(configs).flatMap((name) => [
      `--backend-config=${name},engine=tritonserver`,
      `--backend-config=${name},tritonserver-library=${tritonServer}`,
    ])
    // Triton's server makes batches of what it has at the moment, so their sizes are not those of the record.
    return compareWithRecorded(t, flags, (name) => !/ragged batch|batch that fails|counts/.test(name))
  })
})

// One name in several repositories. The answers are those that Triton 2.51 gave when it was asked the same.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test, { type TestContext } from 'node:test'
import { buildOnnx } from '../fixtures/onnx/build-onnx.ts'
import { startServerProcess, type ServerProcess } from './server-process.ts'
import { until } from '../until.ts'

const tensors = `
  input { name: "IN" data_type: TYPE_INT32 dims: 1 }
  output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
`

async function writeModel(
  root: string,
  name: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): Promise<void> {
  for (const [file, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(root, name, file)), { recursive: true })
    await writeFile(path.join(root, name, file), content)
  }
  await mkdir(path.join(root, name, '1'), { recursive: true })
}

/** OUT = IN + number. */
const adding = (number: number): Buffer =>
  buildOnnx({
    nodes: [{ op: 'Add', inputs: ['IN', 'NUMBER'], outputs: ['OUT'] }],
    inputs: [{ name: 'IN', type: 'INT32', shape: [1] }],
    outputs: [{ name: 'OUT', type: 'INT32', shape: [1] }],
    initializers: [{ name: 'NUMBER', type: 'INT32', dims: [1], raw: new Uint8Array(Int32Array.of(number).buffer) }],
  })

const writeAdding = (root: string, name: string, number: number): Promise<void> =>
  writeModel(root, name, { 'config.pbtxt': `backend: "onnxruntime" ${tensors}`, '1/model.onnx': adding(number) })

const writeEnsemble = (root: string, name: string, part: string, more = ''): Promise<void> =>
  writeModel(root, name, {
    'config.pbtxt': `platform: "ensemble" ${tensors}
      ensemble_scheduling { step { model_name: "${part}" model_version: -1 ${more}
        input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } } }`,
  })

class Repositories {
  readonly #top: string
  constructor(top: string) {
    this.#top = top
  }

  root(name: string): string {
    return path.join(this.#top, name)
  }

  get flags(): string[] {
    const roots = ['A', 'B', 'C'].map((name) => `--model-repository=${this.root(name)}`)
    return [...roots, '--model-namespacing=true', '--exit-on-error=false']
  }

  /** As in an answer, whatever folder the test runs in. */
  plain(text: string): string {
    return text.replaceAll(this.#top, '')
  }
}

async function writeRepositories(context: TestContext): Promise<Repositories> {
  const top = await mkdtemp(path.join(tmpdir(), 'galatea-namespaces-'))
  context.after(() => rm(top, { recursive: true, force: true }))
  const repositories = new Repositories(top)
  const [a, b, c] = ['A', 'B', 'C'].map((name) => repositories.root(name)) as [string, string, string]
  await writeAdding(a, 'both', 1)
  await writeAdding(b, 'both', 2)
  await writeAdding(a, 'onlya', 10)
  await writeAdding(b, 'onlyb', 20)
  for (const root of [a, b]) await writeEnsemble(root, 'ens', 'both')
  await writeEnsemble(a, 'cross', 'onlyb')
  await writeEnsemble(a, 'uses_both', 'both')
  await writeEnsemble(b, 'uses_both_b', 'both')
  await writeEnsemble(c, 'amb', 'both')
  await writeEnsemble(c, 'miss', 'nothere')
  await writeEnsemble(c, 'viaens', 'uses_both')
  return repositories
}

class Asking {
  readonly #server: ServerProcess
  readonly #repositories: Repositories
  constructor(server: ServerProcess, repositories: Repositories) {
    this.#server = server
    this.#repositories = repositories
  }

  async ask(target: string, body?: unknown): Promise<string> {
    const post = { method: 'POST', ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
    const isGet = body === undefined && !target.startsWith('/v2/repository')
    const response = await fetch(this.#server.url + target, isGet ? {} : post)
    return `${response.status} ${this.#repositories.plain(await response.text())}`
  }

  /** What comes of IN = 0, or what the answer says. */
  async infer(model: string): Promise<number | string> {
    const body = { inputs: [{ name: 'IN', shape: [1], datatype: 'INT32', data: [0] }] }
    const text = await this.ask(`/v2/models/${model}/infer`, body)
    if (!text.startsWith('200 ')) return text
    const answer = JSON.parse(text.slice(4)) as { model_name: string; outputs: [{ data: [number] }] }
    assert.ok(model.endsWith(answer.model_name))
    return answer.outputs[0].data[0]
  }

  async inferOnceItServes(model: string): Promise<number> {
    let answer: number | string = ''
    const isServed = async (): Promise<boolean> => typeof (answer = await this.infer(model)) === 'number'
    await until(isServed, `an answer of ${model}`, { everyMs: 50, seen: () => answer })
    return Number(answer)
  }

  /** Names and states, in order. */
  async index(): Promise<string[]> {
    const text = await this.ask('/v2/repository/index')
    const entries = JSON.parse(text.slice(4)) as { name: string; state?: string; reason?: string }[]
    return entries.map(({ name, state = '', reason = '' }) => [name, state, reason].filter(Boolean).join(' '))
  }

  /** Until nothing is on its way out any more. */
  async settledIndex(): Promise<string[]> {
    let index: string[] = []
    const isSettled = async (): Promise<boolean> =>
      !(index = await this.index()).some((entry) => entry.includes('UNLOADING'))
    await until(isSettled, 'an index that stays', { everyMs: 20, seen: () => index })
    return index
  }

  load = (model: string): Promise<string> => this.ask(`/v2/repository/models/${model}/load`)
  unload = (model: string): Promise<string> => this.ask(`/v2/repository/models/${model}/unload`)
}

const ambiguous = (count: number, name: string): string =>
  `400 {"error":"There are ${count} identifiers of model '${name}' in global map, model namespace must be provided to resolve ambiguity."}`

test('a name that is in two repositories is ambiguous to clients, not to the ensembles beside it', async (context) => {
  const repositories = await writeRepositories(context)
  await using server = await startServerProcess(repositories.flags)
  const asking = new Asking(server, repositories)
  const { ask, infer } = { ask: asking.ask.bind(asking), infer: asking.infer.bind(asking) }

  assert.deepEqual(await asking.index(), [
    ...['both', 'cross', 'ens', 'onlya', 'uses_both'].map((name) => `${name} READY`),
    ...['both', 'ens', 'onlyb', 'uses_both_b'].map((name) => `${name} READY`),
    'amb UNAVAILABLE ensemble /C::amb contains models that are not available or ambiguous: both',
    'miss UNAVAILABLE ensemble /C::miss contains models that are not available or ambiguous: nothere',
    'viaens READY',
  ])
  const values = { onlya: 10, onlyb: 20, cross: 20, uses_both: 1, uses_both_b: 2, viaens: 1 }
  for (const [model, value] of Object.entries(values)) assert.equal(await infer(model), value, model)

  for (const name of ['both', 'ens']) {
    for (const target of ['', '/config', '/versions/1', '/versions/9']) {
      assert.equal(await ask(`/v2/models/${name}${target}`), ambiguous(2, name), target)
    }
    assert.equal(await infer(name), ambiguous(2, name))
    assert.equal(await ask(`/v2/models/${name}/ready`), '400 {"error":"Model version not ready"}')
    assert.equal(await ask(`/v2/models/${name}/stats`), `400 {"error":"requested model '${name}' is not available"}`)
    assert.equal(await ask(`/v2/models/${name}/trace/setting`), `400 {"error":"Request for unknown model : ${name}"}`)
  }
  assert.equal(
    await ask('/v2/models/onlya/versions/9'),
    `404 {"error":"Request for unknown model: '/A::onlya' version 9 is not found; it has version 1"}`,
  )
  assert.equal(await infer('amb'), `404 {"error":"Request for unknown model: '/C::amb' is not found"}`)
  assert.equal(await infer('nosuch'), `400 {"error":"Request for unknown model: 'nosuch' is not found"}`)
  // Triton fails here over the first name that is in two repositories.
  const all = JSON.parse((await ask('/v2/models/stats')).slice(4)) as { model_stats: { name: string }[] }
  assert.equal(all.model_stats.filter(({ name }) => name === 'both').length, 2)

  // Triton has no way to say which one is meant.
  assert.equal(await infer(encodeURIComponent(`${repositories.root('B')}::both`)), 2)

  const metrics = repositories.plain(await (await fetch(`http://${server.metricsAddress}/metrics`)).text())
  for (const namespace of ['/A', '/B']) {
    assert.ok(metrics.includes(`nv_inference_request_success{model="both",namespace="${namespace}",version="1"}`))
    assert.ok(
      metrics.includes(`galatea_model_state{model="both",namespace="${namespace}",state="READY",version="1"} 1`),
    )
  }
})

test('a load or an unload by name is of all models of that name', async (context) => {
  const repositories = await writeRepositories(context)
  await using server = await startServerProcess([
    ...repositories.flags,
    '--model-control-mode=explicit',
    '--allow-model-uploads',
    '--load-model=ens',
  ])
  const asking = new Asking(server, repositories)
  const indexOf = (states: Readonly<Record<string, string>>): string[] => {
    const names = [
      'both',
      'cross',
      'ens',
      'onlya',
      'uses_both',
      'both',
      'ens',
      'onlyb',
      'uses_both_b',
      'amb',
      'miss',
      'viaens',
    ]
    return names.map((name) => [name, states[name] ?? ''].filter(Boolean).join(' '))
  }
  assert.deepEqual(await asking.index(), indexOf({ both: 'READY', ens: 'READY' }))

  assert.equal(await asking.load('cross'), '200 ')
  assert.equal(await asking.infer('cross'), 20)
  assert.equal(await asking.unload('both'), '200 ')
  const gone = 'UNAVAILABLE unloaded'
  assert.deepEqual(await asking.settledIndex(), indexOf({ both: gone, ens: gone, cross: 'READY', onlyb: 'READY' }))
  assert.equal(await asking.infer('both'), `404 {"error":"Identifier of model 'both' is not found in global map"}`)
  assert.equal(await asking.infer('ens'), ambiguous(2, 'ens'))

  assert.equal(await asking.load('both'), '200 ')
  assert.deepEqual(await asking.index(), indexOf({ both: 'READY', ens: 'READY', cross: 'READY', onlyb: 'READY' }))

  const failed = (name: string, part: string): string =>
    `400 {"error":"load failed for model '/C::${name}': ensemble /C::${name} contains models that are not available or ambiguous: ${part}\\n"}`
  assert.equal(await asking.load('amb'), failed('amb', 'both'))
  assert.equal(await asking.load('miss'), failed('miss', 'nothere'))
  assert.equal(
    await asking.load('nosuch'),
    `400 {"error":"failed to load 'nosuch', failed to poll from model repository: no model repository has it"}`,
  )
  assert.equal(await asking.unload('nosuch'), '200 ')

  // Files that come with a load belong to no repository: they stand beside those of the same name.
  const config = '{"backend":"onnxruntime"}'
  const upload = { parameters: { config, 'file:1/model.onnx': adding(30).toString('base64') } }
  assert.equal(await asking.ask('/v2/repository/models/both/load', upload), '200 ')
  assert.equal(await asking.infer('both'), ambiguous(3, 'both'))
  assert.equal(await asking.ask('/v2/repository/models/fresh/load', upload), '200 ')
  assert.equal(await asking.infer('fresh'), 30)
  assert.equal(await asking.unload('both'), '200 ')
  assert.equal(await asking.infer('both'), `404 {"error":"Identifier of model 'both' is not found in global map"}`)
})

test('one of several is called, loaded and unloaded by its name in full, and named in a step', async (context) => {
  const repositories = await writeRepositories(context)
  const [a, b] = [repositories.root('A'), repositories.root('B')]
  await writeEnsemble(repositories.root('C'), 'named', 'both', `model_namespace: "${b}"`)
  await using server = await startServerProcess([...repositories.flags, '--model-control-mode=explicit'])
  const asking = new Asking(server, repositories)
  const inFull = (root: string): string => encodeURIComponent(`${root}::both`)
  assert.equal(await asking.load(inFull(a)), '200 ')
  assert.equal(await asking.infer('both'), 1)
  assert.equal(await asking.infer(inFull(b)), `400 {"error":"Request for unknown model: '${inFull(b)}' is not found"}`)
  assert.equal(await asking.load('named'), '200 ')
  assert.equal(await asking.infer('named'), 2)
  assert.equal(await asking.infer('both'), ambiguous(2, 'both'))
  assert.equal(await asking.unload(inFull(a)), '200 ')
  assert.equal(await asking.infer('both'), 2)
})

test('an ensemble calls the model of its own repository as soon as there is one', async (context) => {
  const repositories = await writeRepositories(context)
  const a = repositories.root('A')
  await using server = await startServerProcess([...repositories.flags, '--model-control-mode=explicit'])
  const asking = new Asking(server, repositories)
  await writeEnsemble(a, 'outer', 'cross')
  assert.equal(await asking.load('outer'), '200 ')
  assert.equal(await asking.infer('outer'), 20)
  await writeAdding(a, 'onlyb', 5)
  assert.equal(await asking.load('onlyb'), '200 ')
  assert.equal(await asking.infer('cross'), 5)
  assert.equal(await asking.infer('outer'), 5)
  // The load of an ensemble brings its parts along.
  assert.equal(await asking.load('viaens'), '200 ')
  assert.equal(await asking.infer('viaens'), 1)
  await writeAdding(repositories.root('C'), 'uses_both', 7)
  assert.equal(await asking.load('viaens'), '200 ')
  assert.equal(await asking.infer('viaens'), 7)
})

test('in poll mode names and ensembles follow what the repositories have', async (context) => {
  const repositories = await writeRepositories(context)
  const poll = ['--model-control-mode=poll', '--repository-poll-secs=1']
  await using server = await startServerProcess([...repositories.flags, ...poll])
  const asking = new Asking(server, repositories)
  assert.equal(await asking.infer('both'), ambiguous(2, 'both'))
  await rm(path.join(repositories.root('B'), 'both'), { recursive: true })
  assert.equal(await asking.inferOnceItServes('both'), 1)
  // The ensemble has waited for a model of that name, in whichever repository.
  await writeAdding(repositories.root('A'), 'nothere', 50)
  assert.equal(await asking.inferOnceItServes('miss'), 50)
})

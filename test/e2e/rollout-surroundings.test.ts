// A rollout with what is around it: countries of a database, ensembles, calls between models, sequences, events, the access log, memory.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { until } from '../until.ts'
import { mmdbFile } from './mmdb-file.ts'
import { imports } from './python-models-under-test.ts'
import { attributesOf, OtlpReceiver, type ReceivedSpan } from './otlp-receiver.ts'
import { call, reached, RolloutRepository, type ShownRollout } from './rollout-repository.ts'
import { startServerProcess } from './server-process.ts'

const state = await mkdtemp(path.join(tmpdir(), 'galatea-state-'))
const accessLog = path.join(state, 'access.jsonl')
await writeFile(path.join(state, 'countries.mmdb'), mmdbFile(127, 'NZ'))
const repository = await RolloutRepository.make('backend: "typescript"\nversion_policy { specific { versions: 1 } }\n')
await repository.addVersion(1, { number: 1 })
await repository.addVersion(2, { number: 2 })

async function addModel(name: string, config: string, versions: Readonly<Record<string, string>>): Promise<void> {
  for (const [version, code] of Object.entries(versions)) {
    await mkdir(path.join(repository.root, name, version), { recursive: true })
    if (code !== '') await writeFile(path.join(repository.root, name, version, 'model.py'), code)
  }
  await writeFile(path.join(repository.root, name, 'config.pbtxt'), config)
}

const signature =
  'input { name: "X" data_type: TYPE_INT32 dims: 1 }\noutput { name: "Y" data_type: TYPE_INT32 dims: 1 }\n'
await addModel(
  'ensemble',
  `platform: "ensemble"\n${signature}ensemble_scheduling { step { model_name: "m" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } } }\n`,
  { 1: '' },
)
await addModel('caller', `backend: "python"\n${signature}`, {
  1: `${imports}
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X")
            inner = pb_utils.InferenceRequest(model_name="m", requested_output_names=["Y"], inputs=[x]).exec()
            answers.append(pb_utils.InferenceResponse(inner.output_tensors()))
        return answers
`,
})
/** Counts the requests of a sequence; the answer is 100 times the version and the count. */
const counting = (version: number, initialize: string): string => `${imports}
class TritonPythonModel:
    def initialize(self, args):
        self.counts = {}
        ${initialize}

    def execute(self, requests):
        answers = []
        for request in requests:
            id = request.correlation_id()
            self.counts[id] = self.counts.get(id, 0) + 1
            out = np.array([[${version} * 100 + self.counts[id]]], dtype=np.int32)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", out)]))
        return answers
`
const ofSequences = `backend: "python"\nmax_batch_size: 16\n${signature}sequence_batching { max_sequence_idle_microseconds: 60000000 }\nversion_policy { specific { versions: 1 } }\n`
await addModel('sequences', ofSequences, {
  1: counting(1, 'pass'),
  2: counting(2, 'self.waste = np.ones(300_000_000, dtype=np.uint8)'),
  3: counting(3, 'pass'),
})
await addModel('other_sequences', ofSequences, { 1: counting(4, 'pass') })

const receiver = await OtlpReceiver.start()
const server = await startServerProcess([
  '--trace-config=mode=opentelemetry',
  '--trace-config=level=TIMESTAMPS',
  '--trace-config=rate=0',
  `--trace-config=opentelemetry,url=http://127.0.0.1:${receiver.httpPort}/v1/traces`,
  '--trace-config=opentelemetry,bsp_schedule_delay=50',
  `--model-repository=${repository.root}`,
  `--state-dir=${path.join(state, 'rollouts')}`,
  '--model-control-mode=explicit',
  '--load-model=*',
  `--geoip-database=${path.join(state, 'countries.mmdb')}`,
  `--access-log=${accessLog}`,
])
after(async () => {
  await server.stop()
  await receiver.stop()
  await repository.remove()
  await rm(state, { recursive: true, force: true })
})

async function ask(model: string, parameters: object = {}, shape: readonly number[] = [1]): Promise<number> {
  const inputs = [{ name: 'X', datatype: 'INT32', shape, data: [0] }]
  const { status, body } = await call<{ outputs: [{ data: [number] }] }>(server, `/v2/models/${model}/infer`, { inputs, parameters }) // prettier-ignore
  assert.equal(status, 200, JSON.stringify(body))
  return body.outputs[0].data[0]
}

const begin = async (body: object): Promise<void> => {
  const created = await call<ShownRollout>(server, '/v2/rollouts', { judge: { metrics: { errors: {} } }, ...body })
  assert.equal(created.status, 201, JSON.stringify(created.body))
  await reached(server, 'RUNNING')
}
const rollBack = async (name: string): Promise<void> => {
  await call(server, `/v2/rollouts/${name}/rollback`, {})
  await reached(server, 'ROLLED_BACK')
}

test('the country of a database decides, also for the parts of ensembles and for calls between models', async () => {
  const rules = [{ when: { country: ['NZ'] }, to: 'candidate' }]
  await begin({ model: 'm', name: 'by-country', candidate: 2, rules, steps: [{ weight: 0.01, for: '1h' }] })
  assert.deepEqual([await ask('m'), await ask('ensemble'), await ask('caller')], [2, 2, 2])
  await rollBack('by-country')
  assert.deepEqual([await ask('m'), await ask('ensemble'), await ask('caller')], [1, 1, 1])
})

test('events tell every state, and a tick each second, until the rollout is over', async () => {
  await begin({ model: 'm', name: 'watched', candidate: 2, retry: true, steps: [{ weight: 1, for: '1h' }] })
  const events = await fetch(`${server.url}/v2/rollouts/watched/events`)
  assert.equal(events.headers.get('content-type'), 'text/event-stream')
  const seen: string[] = []
  let text = ''
  for await (const piece of events.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(piece).toString()
    const whole = text.split('\n\n')
    text = whole.pop() as string
    for (const event of whole) {
      const [, kind = '', data = '{}'] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? []
      seen.push(`${kind} ${(JSON.parse(data) as ShownRollout).state}`)
    }
    if (seen.at(-1) === 'tick RUNNING') await call(server, '/v2/rollouts/watched/rollback', {})
  }
  assert.equal(seen[0], 'state RUNNING')
  assert.ok(seen.includes('tick RUNNING'), seen.join())
  assert.equal(seen.at(-1), 'state ROLLED_BACK')
})

test('a shadow copy has a line of its own in the access log, and is part of the trace of its request', async () => {
  await begin({ model: 'm', name: 'copied', candidate: 2, retry: true, steps: [{ shadow: 100, for: '1h' }] })
  const lines = async (): Promise<readonly Record<string, unknown>[]> =>
    (await readFile(accessLog, 'utf8')).split('\n').flatMap((line) => {
      const entry = line === '' ? {} : (JSON.parse(line) as Record<string, unknown>)
      return entry['protocol'] === 'shadow' ? [entry] : []
    })
  await until(async () => {
    assert.equal(await ask('m'), 1)
    return (await lines()).length > 0
  }, 'a line of a copy')
  const [line] = await lines()
  assert.deepEqual([line?.['path'], line?.['status'], line?.['variant']], ['/v2/models/m/versions/2/infer', 200, 'copied/shadow/2']) // prettier-ignore

  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01` }
  const body = JSON.stringify({ inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [0] }] })
  const ofCopy = (span: ReceivedSpan): boolean => attributesOf(span.attributes)['galatea.shadow'] === 'true'
  // A busy machine drops copies.
  await until(async () => {
    await (await fetch(`${server.url}/v2/models/m/infer`, { method: 'POST', body, headers })).text()
    return receiver.spans.some(ofCopy)
  }, 'the span of a copy')
  const span = receiver.spans.find(ofCopy) as ReceivedSpan
  assert.deepEqual([span.traceId, attributesOf(span.attributes)['triton.model_version']], [traceId, '2'])
  const parents = receiver.spans.filter(({ traceId: of }) => of === traceId).map(({ spanId }) => spanId)
  assert.ok(parents.length >= 3, `${parents.length} spans`)
  await rollBack('copied')
})

test('a sequence ends on the arm that it began on, also after its experiment, beside the next rollout, after the promotion and after the way back', async () => {
  const arms = [{ name: 'a', version: 1, weight: 50 }, { name: 'b', version: 2, weight: 50 }] // prettier-ignore
  const posted = { model: 'sequences', name: 'both', kind: 'experiment', arms, goals: ['score:x'] }
  assert.equal((await call(server, '/v2/rollouts', posted)).status, 201)
  await reached(server, 'RUNNING')
  const of = (id: number, more: object = {}): Promise<number> => ask('sequences', { sequence_id: id, ...more }, [1, 1])
  const begun = new Map<number, { readonly version: number; count: number }>()
  let id = 100
  const beginOn = async (version: number): Promise<void> => {
    for (let last = 0; last !== version;) {
      last = Math.floor((await of(++id, { sequence_start: true })) / 100)
      begun.set(id, { version: last, count: 1 })
    }
  }
  const goOn = async (more: object = {}): Promise<void> => {
    for (const [one, sequence] of begun) assert.equal(await of(one, more), sequence.version * 100 + ++sequence.count)
  }
  for (const version of [1, 2]) await beginOn(version)
  assert.equal((await call(server, '/v2/rollouts/both/rollback', {})).status, 200)
  await reached(server, 'ENDED')
  await goOn()
  assert.equal(await of(99, { sequence_start: true, sequence_end: true }), 101)

  await begin({
    model: 'sequences',
    name: 'third',
    candidate: 3,
    keep_candidate: true,
    steps: [{ weight: 50, for: '1h' }],
  })
  for (const version of [1, 3]) await beginOn(version)
  await goOn()
  await call(server, '/v2/rollouts/third/promote', {})
  await reached(server, 'SUCCEEDED')
  await goOn()
  assert.equal(await of(98, { sequence_start: true, sequence_end: true }), 301)
  await rollBack('third')
  await goOn()
  assert.equal(await of(97, { sequence_start: true, sequence_end: true }), 101)
  const isReady = async (version: number): Promise<boolean> =>
    (await call(server, `/v2/models/sequences/versions/${version}/ready`)).status === 200
  assert.equal(await isReady(3), true)

  // The same with a version of another model, on which a sequence began after the promotion.
  const candidate = { model: 'other_sequences', version: 1 }
  await begin({ model: 'sequences', name: 'fourth', candidate, steps: [{ weight: 50, for: '1h' }] })
  await beginOn(4)
  await goOn()
  await call(server, '/v2/rollouts/fourth/promote', {})
  await reached(server, 'SUCCEEDED')
  await beginOn(4)
  await goOn()
  await rollBack('fourth')
  await goOn()
  assert.equal(await of(96, { sequence_start: true, sequence_end: true }), 101)
  await goOn({ sequence_end: true })
  await until(async () => !(await isReady(2)), 'the other arm to be let go')
})

test('a sequence ends on the version that it began on, also after the rollback, which memory causes', async () => {
  const judge = { metrics: { memory: {} } }
  await begin({ model: 'sequences', name: 'heavy', candidate: 2, judge, steps: [{ weight: 50, for: '1h' }] })
  const of = (id: number, more: object = {}): Promise<number> => ask('sequences', { sequence_id: id, ...more }, [1, 1])
  const versions = new Map<number, number>()
  for (let id = 1; id <= 8; id++) versions.set(id, Math.floor((await of(id, { sequence_start: true })) / 100))
  assert.deepEqual(new Set(versions.values()), new Set([1, 2]))
  for (const [id, version] of versions) assert.equal(await of(id), version * 100 + 2)
  const shown = async (): Promise<ShownRollout> => (await call<ShownRollout>(server, '/v2/rollouts/heavy')).body
  await until(async () => (await shown()).weight === 0, 'the rollback')
  assert.match((await shown()).reason, /memory is worse/)
  for (const [id, version] of versions) assert.equal(await of(id, { sequence_end: true }), version * 100 + 3)
  assert.equal(await of(9, { sequence_start: true, sequence_end: true }), 101)
  await reached(server, 'ROLLED_BACK')
})

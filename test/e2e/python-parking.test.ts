// Batches that wait inside a Python worker while another one executes: what becomes of them when clients give up, when
// the worker dies, and what is told about their times.

import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { parkingDepth } from '../../src/backends/worker-process/parking.ts'
import type { ServedVersion } from '../../src/engine/serving/served-version.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { PythonModels, textConfig, textModel, textTensor } from './python-models-under-test.ts'
import { until } from '../until.ts'

/** Writes down what it executes. `wait:<file>` runs until that file is there. */
const diary = textModel(`
def execute(self, requests):
    what = text(requests[0])
    with open(os.path.join(os.path.dirname(__file__), "diary"), "a") as file:
        file.write(what + "\\n")
    if what.startswith("wait:"):
        while not os.path.exists(what[5:]):
            time.sleep(0.001)
    if what == "exit":
        os._exit(7)
    if what == "raise":
        raise ValueError("no")
    if what == "large":
        return [answer("x" * 100000)]
    return [answer(os.getpid())]
`)

let models: PythonModels
before(async () => {
  models = await PythonModels.load({ diary: { code: diary, config: textConfig } })
})
after(() => models.close())

type Asked = { readonly request: InferenceRequest; readonly outcomes: string[]; readonly ended: Promise<string> }

function ask(text: string): Asked {
  const outcomes: string[] = []
  const { promise, resolve } = Promise.withResolvers<string>()
  const request = models.request('diary', [textTensor('X', [text])], ({ outputs, error }) => {
    const outcome = error === null ? String(outputs['OUT']?.[0]) : `${error.code}: ${error.message}`
    outcomes.push(outcome)
    resolve(outcome)
  })
  return { request, outcomes, ended: promise }
}

const version = (): ServedVersion => models.engine.findVersion('diary', '') as ServedVersion

const diaryLines = (): string[] => {
  const file = path.join(models.folder, 'diary/1/diary')
  return fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
}

const begun = async (text: string): Promise<void> => {
  await until(() => diaryLines().includes(text), `'${text}' to begin`, { seen: diaryLines })
}

/** Brings the worker to where batches are parked, whatever the machine does, and tells its pid. */
async function warm(): Promise<number> {
  await models.becomesReady('diary')
  const parkingPid = async (): Promise<number> => {
    for (let i = 0; i < 40; i++) assert.match(await models.say('diary', 'warm'), /^\d+$/)
    const probes = [ask('probe'), ask('probe'), ask('probe')]
    // With room in the worker nothing waits in the scheduler.
    const isParking = version().pendingCount === 0
    const [pid] = await Promise.all(probes.map(({ ended }) => ended))
    return isParking ? Number(pid) : 0
  }
  return until(parkingPid, 'the worker to park')
}

/** One that runs until `release`, with others parked behind it. */
async function parkBehind(name: string, texts: readonly string[]) {
  for (let attempt = 0; ; attempt++) {
    const file = path.join(models.folder, `${name}-${attempt}`)
    const head = ask(`wait:${file}`)
    const parked = texts.map(ask)
    const release = (): void => fs.writeFileSync(file, '')
    const isParked = version().pendingCount === Math.max(0, texts.length - parkingDepth)
    await begun(`wait:${file}`)
    if (isParked) return { head, parked, release }
    // The machine stood still just now, so that the first one seemed long: none of the others may run, and once more.
    for (const { request } of parked) request.cancel()
    release()
    await Promise.all([head, ...parked].map(({ ended }) => ended))
    await warm()
  }
}

test('a parked request that is cancelled never runs, and its neighbours do', async () => {
  await warm()
  const { head, parked, release } = await parkBehind('cancel', ['first', 'second', 'third'])
  parked[1]?.request.cancel()
  release()
  assert.match(await head.ended, /^\d+$/)
  assert.match((await parked[0]?.ended) ?? '', /^\d+$/)
  assert.equal(await parked[1]?.ended, 'CANCELLED: ')
  assert.match((await parked[2]?.ended) ?? '', /^\d+$/)
  assert.deepEqual(
    diaryLines().filter((line) => ['first', 'second', 'third'].includes(line)),
    ['first', 'third'],
  )
  assert.equal(parked[1]?.request.computeStartNs, 0, 'nothing counts as executed')
})

test('a request that is cancelled after the worker has read it, but before it begins it, never runs either', async () => {
  await warm()
  const second = path.join(models.folder, 'second-in-line')
  const { head, parked, release } = await parkBehind('read', [`wait:${second}`, 'given-up', 'kept'])
  release()
  // By now the worker has read all three in one go.
  await begun(`wait:${second}`)
  parked[1]?.request.cancel()
  fs.writeFileSync(second, '')
  for (const asked of [head, parked[0], parked[2]]) assert.match((await asked?.ended) ?? '', /^\d+$/)
  assert.equal(await parked[1]?.ended, 'CANCELLED: ')
  assert.deepEqual(
    diaryLines().filter((line) => ['given-up', 'kept'].includes(line)),
    ['kept'],
  )
})

test('behind an execution that takes long nothing more is parked', async () => {
  await warm()
  const { head, parked, release } = await parkBehind('long', ['a'])
  // Its own clock says when it is long: some milliseconds.
  const later: Asked[] = []
  for (let i = 0; i < parkingDepth && version().pendingCount === 0; i++) {
    await new Promise((resolve) => setTimeout(resolve, 10))
    later.push(ask('b'))
  }
  assert.equal(version().pendingCount, 1)
  release()
  for (const { ended } of [head, ...parked, ...later]) assert.match(await ended, /^\d+$/)
})

test('the time of a parked request counts as waiting until the worker begins it', async () => {
  await warm()
  const { head, parked, release } = await parkBehind('stamps', ['stamped'])
  const releasedNs = performance.now() * 1e6
  release()
  await Promise.all([head.ended, parked[0]?.ended])
  const stamped = parked[0]?.request
  assert.ok(stamped)
  const { queueStartNs, computeStartNs, computeInputEndNs, computeOutputStartNs, computeEndNs } = stamped
  assert.ok(queueStartNs < releasedNs && computeStartNs > releasedNs, 'it began after the one before it ended')
  assert.ok(computeStartNs <= computeInputEndNs && computeInputEndNs <= computeOutputStartNs)
  assert.ok(computeOutputStartNs <= computeEndNs)
  assert.ok(head.request.computeStartNs < releasedNs)
})

test('an exception in one batch leaves those parked behind it alone', async () => {
  await warm()
  const { head, parked, release } = await parkBehind('raise', ['raise', 'large', 'ok'])
  release()
  assert.match(await head.ended, /^\d+$/)
  assert.match((await parked[0]?.ended) ?? '', /^INTERNAL: .*ValueError: no/)
  assert.equal((await parked[1]?.ended)?.length, 100_000)
  assert.match((await parked[2]?.ended) ?? '', /^\d+$/)
})

test('a worker that dies with batches parked gives each request exactly one outcome, however often', async () => {
  const all: Asked[] = []
  for (let round = 0; round < 4; round++) {
    const pid = await warm()
    const { head, parked, release } = await parkBehind(`kill-${round}`, ['ok', 'exit', 'never', 'waits', 'queued'])
    if (round === 2) parked[2]?.request.cancel()
    if (round === 3) {
      // From outside, while it executes the first.
      process.kill(pid, 'SIGKILL')
    } else release()
    all.push(head, ...parked)
    const outcomes = await Promise.all([head, ...parked].map(({ ended }) => ended))
    const unhealthy = "INTERNAL: Stub process 'diary_0' is not healthy."
    if (round < 3) {
      assert.match(outcomes[0] ?? '', /^\d+$/)
      assert.match(outcomes[1] ?? '', /^\d+$/)
      assert.equal(outcomes[2], unhealthy)
    } else assert.equal(outcomes[0], unhealthy)
    // What waited in the scheduler goes to the next worker.
    assert.match(outcomes[5] ?? '', /^\d+$/)
    assert.equal(version().inFlightCount, 0)
  }
  for (const { outcomes } of all) assert.equal(outcomes.length, 1)
  assert.equal(diaryLines().includes('never'), false)
})

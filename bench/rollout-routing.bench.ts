// What a live rollout costs each request: the choice of the arm, and the count at its end. In one process, without a socket.

import { anonymous } from '../src/access/caller.ts'
import { SystemClock } from '../src/base/clock.ts'
import type { Chooser, ChoiceWatch, RequestFacts, VersionChoice } from '../src/model/choice.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import type { ModelVersion } from '../src/model/model-version.ts'
import type { RequestHead } from '../src/model/request-origin.ts'
import { openLiveRollout } from '../src/rollouts/live-rollout.ts'
import { readRolloutFile } from '../src/rollouts/rollout-file.ts'
import type { RolloutPlan } from '../src/rollouts/rollout-plan.ts'
import { Tensor } from '../src/tensor/tensor.ts'
import { plainModelText, shelvedModel } from '../test/fakes/engine-on-shelf.ts'
import { alternate, medianOf, type Bench, type Figure } from './bench.ts'

const clock = new SystemClock()
const perRun = 100_000
const users = Array.from({ length: 4096 }, (_, index) => `user-${index}`)
const head: RequestHead = { id: '', parameters: new Map(), correlationId: 0n, isSequenceStart: false }

/** As an exchange is for a Chooser. */
class Facts implements RequestFacts {
  readonly protocol = 'http'
  readonly api = 'inference'
  readonly path = '/'
  readonly peer = ''
  readonly caller = anonymous
  watch: ChoiceWatch | null = null
  readonly user: string

  constructor(user: string) {
    this.user = user
  }

  header(name: string): string | null {
    return name === 'x-user-id' ? this.user : null
  }

  head(): RequestHead {
    return head
  }
}

const { config } = shelvedModel('m', plainModelText('m'))
const versions = new Map(
  ['1', '2'].map((version) => [version, { version, config, state: 'READY' } as unknown as ModelVersion]),
)
const choice: VersionChoice = {
  name: 'm',
  readyVersions: ['1', '2'],
  find: (version) => versions.get(version || '2') as ModelVersion,
  versionWithSequence: () => null,
}

/** The Chooser of a live rollout with 5 % for the candidate. */
function openRollout(file: object): Chooser {
  const { plan } = readRolloutFile({ kind: 'rollout', ...file }, () => null)
  const arms = ['stable', 'candidate'].map((name, i) => ({ name, model: 'm', version: String(i + 1) }))
  const settings = { name: 'r1', model: 'm', plan: plan as RolloutPlan, arms, known: {}, seed: 1 }
  let chooser: Chooser | null = null
  const engine = {
    setChooser: (_: string, set: Chooser | null) => (chooser = set),
    findVersion: (_: string, version: string) => choice.find(version),
    infer: () => undefined,
  }
  openLiveRollout({ engine, clock, countryOf: () => '' }, settings).setWeights([9500, 500])
  return chooser as unknown as Chooser
}

/** Microseconds of this thread per request: what other processes do at the same time does not count. A request is made, and ends with one answer. */
function run(chooser: Chooser | null): number {
  const inputs = [new Tensor('IN', 'FP32', [1], new Uint8Array(4))]
  const sink = (): void => undefined
  const answer = InferenceResponse.of([])
  const startNs = clock.nowNs()
  const before = process.threadCpuUsage()
  for (let i = 0; i < perRun; i++) {
    const facts = new Facts(users[i % users.length] as string)
    const version = chooser === null ? choice.find('') : chooser(facts, '', choice)
    const request = new InferenceRequest({ modelName: version.version, inputs, sink })
    request.receivedNs = startNs
    request.queueStartNs = request.computeStartNs = startNs + i
    request.endNs = request.computeEndNs = startNs + i + 1000
    const { watch } = facts
    request.watch = watch
    if (watch !== null) watch.begun(request, true)
    request.respond(answer)
  }
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / perRun
}

const cases = [
  ['by chance', {}, 0.5],
  ['sticky, warm', { key: ['header:x-user-id'] }, 1],
] as const

export const bench: Bench = {
  name: 'rollout-routing',
  summary:
    'What a live rollout adds to a request: choice of the arm and evidence, beside the same request without a rollout',
  async run({ rounds, say }) {
    const figures: Figure[] = []
    for (const [what, file, value] of cases) {
      const routed = openRollout(file)
      for (let i = 0; i < 3; i++) for (const chooser of [null, routed]) run(chooser)
      const { ours, theirs } = await alternate(rounds, {
        ours: () => Promise.resolve(run(routed)),
        theirs: () => Promise.resolve(run(null)),
      })
      const added = medianOf(ours.map((us, i) => us - (theirs[i] as number)))
      const detail = `${medianOf(ours).toFixed(2)} µs with the rollout, ${medianOf(theirs).toFixed(2)} µs without`
      figures.push({ what: `added: ${what}`, value: added, unit: 'µs', target: { kind: 'at most', value }, detail })
      say(`${what}: ${detail}`)
    }
    return figures
  },
}

// What the sequence scheduler costs per request with 64 sequences at once, against no scheduler and against the direct one:
// a model that is done at once, so that what is left is the scheduling.

import { SystemClock } from '../src/base/clock.ts'
import type { Instance } from '../src/model/backend.ts'
import { InferenceRequest } from '../src/model/inference-request.ts'
import { InferenceResponse } from '../src/model/inference-response.ts'
import { emptyModelConfig, type ModelConfig } from '../src/config/model-config.ts'
import { ModelSignature } from '../src/config/model-signature.ts'
import { normaliseModelConfig } from '../src/config/normalise-model-config.ts'
import type { Scheduler } from '../src/model/scheduler.ts'
import { parseModelConfigText } from '../src/repository/text-format-reader.ts'
import { DirectScheduler } from '../src/scheduling/direct-scheduler.ts'
import { SequenceScheduler } from '../src/scheduling/sequence-scheduler.ts'
import { sequenceSettings } from '../src/scheduling/sequence-settings.ts'
import { Tensor } from '../src/tensor/tensor.ts'
import { alternate, medianOf, medianRatio, type Bench } from './bench.ts'

const sequences = 64
const roundsOfAll = 1500

const state = new Tensor('S_OUT', 'FP32', [1, 64], new Uint8Array(256))
const answer = InferenceResponse.of([])

/** Finishes before `execute` returns. Gives a state out where the model has one. */
const instantInstance: Instance = {
  name: 'instant',
  isReady: true,
  execute: (batch) => {
    for (const request of batch.requests) {
      request.respond(request.inputs.length > 1 ? InferenceResponse.of([state]) : answer)
    }
    batch.executed()
  },
  close: () => Promise.resolve(),
}

function sequenceScheduler(turns: (() => void)[], extra: string): Scheduler {
  const { config: parsed } = parseModelConfigText(`
    name: "m" max_batch_size: 8 input { name: "X" data_type: TYPE_FP32 dims: 4 }
    sequence_batching { oldest { max_candidate_sequences: ${sequences} } ${extra} }
  `)
  const config: ModelConfig = { ...emptyModelConfig(), ...parsed }
  normaliseModelConfig(config)
  if (config.sequenceBatching === null) throw new Error('the text above has one')
  const options = { maxQueueSize: 1000, initialStates: new Map<string, Uint8Array>() }
  const settings = sequenceSettings(config, config.sequenceBatching, new ModelSignature(config), options)
  const afterThisTurn = (fire: () => void): void => void turns.push(fire)
  return new SequenceScheduler({ clock: new SystemClock(), afterThisTurn }, [instantInstance], settings)
}

/** All sequences send a request each, then the turn of the loop ends, and so on; in microseconds per request. */
function microsecondsPerRequest(make: (turns: (() => void)[]) => Scheduler | null): number {
  const turns: (() => void)[] = []
  const scheduler = make(turns)
  const input = new Tensor('X', 'FP32', [1, 4], new Uint8Array(16))
  const startedMs = performance.now()
  for (let round = 0; round < roundsOfAll; round++) {
    for (let id = 1; id <= sequences; id++) {
      const request = new InferenceRequest({
        modelName: 'm',
        inputs: [input],
        correlationId: BigInt(id),
        isSequenceStart: round === 0,
        isSequenceEnd: round === roundsOfAll - 1,
        sink: () => undefined,
      })
      request.batchSize = 1
      if (scheduler === null) request.respond(answer)
      else scheduler.enqueue(request)
    }
    for (let fire = turns.pop(); fire !== undefined; fire = turns.pop()) fire()
  }
  scheduler?.close()
  return ((performance.now() - startedMs) * 1000) / (roundsOfAll * sequences)
}

const stateText = 'state { input_name: "S" output_name: "S_OUT" data_type: TYPE_FP32 dims: 64 }'
const controlText = `
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }
  control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }`

export const bench: Bench = {
  name: 'sequences',
  summary: `cost of the sequence scheduler per request, ${sequences} sequences`,
  run: async ({ rounds }) => {
    const subjects = {
      alone: () => Promise.resolve(microsecondsPerRequest(() => null)),
      direct: () =>
        Promise.resolve(
          microsecondsPerRequest(
            () => new DirectScheduler({ clock: new SystemClock() }, [instantInstance], { maxQueueSize: 1000 }),
          ),
        ),
      sequences: () => Promise.resolve(microsecondsPerRequest((turns) => sequenceScheduler(turns, ''))),
      states: () =>
        Promise.resolve(microsecondsPerRequest((turns) => sequenceScheduler(turns, stateText + controlText))),
    }
    // Once for the compiler.
    for (const subject of Object.values(subjects)) await subject()
    const measured = await alternate(Math.max(3, rounds), subjects)
    const median = (name: keyof typeof subjects): string => `${medianOf(measured[name]).toFixed(2)} µs`
    const detail = `request alone ${median('alone')}, direct ${median('direct')}, sequences ${median('sequences')}, with controls and a state ${median('states')}`
    const same = (value: number): number => value
    return [
      {
        what: 'sequence scheduler against none, per request',
        value: medianRatio(measured.sequences, measured.alone, same),
        unit: '×',
        target: null,
        detail,
      },
      {
        what: 'sequence scheduler against the direct one',
        value: medianRatio(measured.sequences, measured.direct, same),
        unit: '×',
        target: null,
        detail,
      },
      {
        what: 'sequence scheduler, per request with controls and a state',
        value: medianOf(measured.states) - medianOf(measured.alone),
        unit: 'µs',
        target: { kind: 'at most', value: 15 },
        detail,
      },
    ]
  },
}

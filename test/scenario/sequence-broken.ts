// The sequence scheduler with one mistake each: what the simulation is worth is how soon it finds them.

import type { Instance } from '../../src/model/backend.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { SequenceScheduler } from '../../src/scheduling/sequence-scheduler.ts'
import { deafClock, freeTooSoon } from './broken-parts.ts'
import type { SequenceSchedulerMaker } from './sequence-simulation.ts'

const oneRowTooMany: SequenceSchedulerMaker = (dependencies, instances, settings) => {
  const limits = { ...settings.limits, maxBatchSize: settings.limits.maxBatchSize + 1 }
  return new SequenceScheduler(dependencies, instances, { ...settings, limits })
}

const slotReleasedTwice: SequenceSchedulerMaker = (dependencies, instances, settings) =>
  new SequenceScheduler(dependencies, instances.map(freeTooSoon), settings)

const lostWakeUp: SequenceSchedulerMaker = ({ clock, afterThisTurn }, instances, settings) =>
  new SequenceScheduler({ clock: deafClock(clock), afterThisTurn }, instances, settings)

/** A sequence without a place is given the place of another instance's. */
const instancesSwapped: SequenceSchedulerMaker = (dependencies, instances, settings) => {
  let turn = 0
  const swapped = instances.map((instance, index): Instance => ({
    name: instance.name,
    get isReady() {
      return instances.every(({ isReady }) => isReady)
    },
    execute: (batch) => (instances[(index + (turn++ >> 3)) % instances.length] as Instance).execute(batch),
    close: () => instance.close(),
  }))
  return new SequenceScheduler(dependencies, swapped, settings)
}

/** What a model is told by its state is told to whoever runs next. */
const statesMixedUp: SequenceSchedulerMaker = (dependencies, instances, settings) => {
  const { states } = settings
  const mixed = Object.create(states) as typeof states
  const shared = states.begin()
  Object.defineProperties(mixed, {
    isEmpty: { value: false },
    begin: { value: () => shared },
    append: { value: states.append.bind(states) },
    withStates: { value: states.withStates.bind(states) },
    take: { value: states.take.bind(states) },
    keep: { value: states.keep.bind(states) },
  })
  return new SequenceScheduler(dependencies, instances, { ...settings, states: mixed })
}

/** A cancelled request stays in the queue. */
const deafToCancels: SequenceSchedulerMaker = (dependencies, instances, settings) => {
  const scheduler = new SequenceScheduler(dependencies, instances, settings)
  const enqueue = scheduler.enqueue.bind(scheduler)
  scheduler.enqueue = (request: InferenceRequest) => {
    enqueue(request)
    if (!request.isEnded) request.handOver(null)
  }
  return scheduler
}

export const brokenSequenceSchedulers: Readonly<Record<string, SequenceSchedulerMaker>> = {
  'one row too many in a batch': oneRowTooMany,
  'an instance is free before it is done': slotReleasedTwice,
  'a wake-up is lost': lostWakeUp,
  'a sequence changes its instance': instancesSwapped,
  'sequences share one state': statesMixedUp,
  'a cancelled request stays in the queue': deafToCancels,
}

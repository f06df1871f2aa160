// The dynamic batcher with one mistake each: what the simulation is worth is how soon it finds them.

import type { Cancel, Clock } from '../../src/base/clock.ts'
import type { Instance } from '../../src/model/backend.ts'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { DynamicBatchScheduler } from '../../src/scheduling/dynamic-batch-scheduler.ts'
import { deafClock, freeTooSoon } from './broken-parts.ts'
import type { SchedulerMaker } from './dynamic-batch-simulation.ts'

const offByOne: SchedulerMaker = (dependencies, instances, settings) => {
  const limits = { ...settings.limits, maxBatchSize: settings.limits.maxBatchSize + 1 }
  return new DynamicBatchScheduler(dependencies, instances, { ...settings, limits })
}

/** Each arrival begins the wait anew: the wake-up that was set for the oldest is put off. */
const delayFromNewest: SchedulerMaker = ({ clock, afterThisTurn }, instances, settings) => {
  let wake: (() => void) | null = null
  let cancel: Cancel = () => undefined
  const arm = (): void => {
    cancel()
    cancel = clock.after(settings.limits.maxQueueDelayNs, () => {
      const fire = wake
      wake = null
      fire?.()
    })
  }
  const late: Clock = {
    nowNs: () => clock.nowNs(),
    wallMs: () => clock.wallMs(),
    after: (waitNs, fire) => clock.after(waitNs, fire),
    afterExactly: (_, fire) => {
      wake = fire
      arm()
      return () => {
        wake = null
        cancel()
      }
    },
  }
  const scheduler = new DynamicBatchScheduler({ clock: late, afterThisTurn }, instances, settings)
  const enqueue = scheduler.enqueue.bind(scheduler)
  scheduler.enqueue = (request) => {
    enqueue(request)
    if (wake !== null) arm()
  }
  return scheduler
}

const priorityInversion: SchedulerMaker = (dependencies, instances, settings) => {
  const scheduler = new DynamicBatchScheduler(dependencies, instances, settings)
  const enqueue = scheduler.enqueue.bind(scheduler)
  scheduler.enqueue = (request) => {
    const { priorityLevels } = settings.queue
    const isSet = request.priority >= 1n && request.priority <= priorityLevels
    const inverted = isSet ? priorityLevels + 1n - request.priority : request.priority
    // The scheduler sees the inverted number for as long as it asks.
    const honest = request.priority
    Object.defineProperty(request, 'priority', { value: inverted, configurable: true })
    enqueue(request)
    Object.defineProperty(request, 'priority', { value: honest, configurable: true })
  }
  return scheduler
}

const slotReleasedTwice: SchedulerMaker = (dependencies, instances, settings) =>
  new DynamicBatchScheduler(dependencies, instances.map(freeTooSoon), settings)

const lostWakeUp: SchedulerMaker = ({ clock, afterThisTurn }, instances, settings) =>
  new DynamicBatchScheduler({ clock: deafClock(clock), afterThisTurn }, instances, settings)

/** Whatever comes may join, and padding does not help. */
const everybodyJoins: SchedulerMaker = (dependencies, instances, settings) =>
  new DynamicBatchScheduler(dependencies, instances, { ...settings, limits: { ...settings.limits, canJoin: null } })

/** Requests of one bucket run together, but nobody fills them up. */
const nothingIsPadded: SchedulerMaker = (dependencies, instances, settings) =>
  new DynamicBatchScheduler(dependencies, instances, { ...settings, padding: null })

/** All requests of a batch that failed get its error. */
const nobodyRunsAlone: SchedulerMaker = (dependencies, instances, settings) =>
  new DynamicBatchScheduler(dependencies, instances, { ...settings, runsFailedAlone: false })

/** What failed goes to the end of the queue and runs with others again. */
const failedRunTogether: SchedulerMaker = (dependencies, instances, settings) => {
  const scheduler: DynamicBatchScheduler = new DynamicBatchScheduler(
    dependencies,
    instances.map((instance) => withGuards(instance, (request) => scheduler.enqueue(request))),
    { ...settings, runsFailedAlone: false },
  )
  return scheduler
}

function withGuards(instance: Instance, again: (request: InferenceRequest) => void): Instance {
  const execute = instance.execute.bind(instance)
  instance.execute = (batch) => {
    const takeFailure = (request: InferenceRequest): boolean => {
      again(request)
      return true
    }
    if (batch.requests.length > 1) for (const request of batch.requests) request.lend({ takeFailure })
    execute(batch)
  }
  return instance
}

/** One that died while it executed is trusted with the same requests again. */
const deathIsForgiven: SchedulerMaker = (dependencies, instances, settings) => {
  for (const instance of instances) {
    const execute = instance.execute.bind(instance)
    instance.execute = (batch) => {
      for (const request of batch.requests) {
        const lend = request.lend.bind(request)
        request.lend = (lender) => (lender === null ? undefined : lend(lender))
      }
      execute(batch)
    }
  }
  return new DynamicBatchScheduler(dependencies, instances, settings)
}

export const brokenSchedulers: Readonly<Record<string, SchedulerMaker>> = {
  'one row too many in a batch': offByOne,
  'the delay counts from the newest request': delayFromNewest,
  'low priorities go first': priorityInversion,
  'an instance is free before it is done': slotReleasedTwice,
  'a wake-up is lost': lostWakeUp,
  'requests of any shape run together': everybodyJoins,
  'shorter inputs are not filled up': nothingIsPadded,
  'a bad request fails the others of its batch': nobodyRunsAlone,
  'a bad request runs with others again': failedRunTogether,
  'a request that ends workers runs again': deathIsForgiven,
}

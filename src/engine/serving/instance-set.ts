// The Instances of one loaded version. Their number can change while the version serves: Instances that stay are not
// touched, new ones are warmed up before they are used, and those that leave end what they have begun.

import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Instance, InstanceSpec, LoadedModel } from '../../model/backend.ts'
import type { ModelInstanceGroup, ModelRateLimiter } from '../../config/model-config.ts'
import type { CoresOf } from '../../config/host-policy.ts'
import type { Scheduler } from '../../model/scheduler.ts'
import type { LimitedInstance, RateLimiter } from '../../scheduling/rate-limiter.ts'
import { BusyMeter } from './busy-meter.ts'

type InstanceSetDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly loaded: LoadedModel
  /** Null: no Instance waits for resources. */
  readonly rateLimiter: RateLimiter | null
  readonly onReadinessChange: () => void
  /** Absent: Instances run on all cores. */
  readonly coresOf?: CoresOf | undefined
  /** Runs before new Instances are used. */
  warmUp(instances: readonly Instance[]): Promise<void>
}

type InstancePlan = Pick<InstanceSpec, 'kind' | 'deviceId'> & {
  readonly group: ModelInstanceGroup
  readonly name: string
  readonly isPassive: boolean
  readonly rateLimiter: ModelRateLimiter | null
  /** All other fields of its group, as text to compare. */
  readonly traits: string
}

type Member = {
  readonly plan: InstancePlan
  readonly instance: Instance
  readonly meter: BusyMeter
  /** What the scheduler uses: the Instance, or the Instance behind the rate limiter. */
  readonly scheduled: Instance
  /** The Instance behind the rate limiter; null without a limit. */
  readonly limited: LimitedInstance | null
}

type WakingScheduler = Pick<Scheduler, 'instancesChanged'>

export class InstanceSet {
  readonly #dependencies: InstanceSetDependencies
  #members: readonly Member[] = []
  /** Members that are no longer used and not yet closed. Their counts are still read from them. */
  readonly #closing = new Set<Member>()
  /** The counts of Instances that are closed. */
  #goneRestarts = 0
  #goneBusyNs = 0
  #madeCount = 0
  readonly #leaving = new Set<Promise<void>>()
  #scheduler: WakingScheduler = { instancesChanged: () => undefined }

  private constructor(dependencies: InstanceSetDependencies) {
    this.#dependencies = dependencies
  }

  /** `groups` are normalised. Frees what it made when one of them fails. */
  static async create(
    dependencies: InstanceSetDependencies,
    groups: readonly ModelInstanceGroup[],
  ): Promise<InstanceSet> {
    const set = new InstanceSet(dependencies)
    set.#members = await set.#make(groups.flatMap(plansOf))
    return set
  }

  get count(): number {
    return this.#members.length
  }

  get readyCount(): number {
    let count = 0
    for (const { instance } of this.#members) if (instance.isReady && instance.isLost !== true) count++
    return count
  }

  /** How often one of their Workers was started anew. */
  get restartCount(): number {
    const all = [...this.#members, ...this.#closing]
    return all.reduce((sum, { instance }) => sum + (instance.restartCount ?? 0), this.#goneRestarts)
  }

  /** How long they had something to execute, up to now, added up. */
  busyNs(nowNs: number): number {
    const all = [...this.#members, ...this.#closing]
    return all.reduce((sum, { meter }) => sum + meter.busyNs(nowNs), this.#goneBusyNs)
  }

  /** All of them, as the backend made them. */
  get instances(): readonly Instance[] {
    return this.#members.map(({ instance }) => instance)
  }

  /** The Instances that take requests, for the scheduler. */
  get scheduled(): readonly Instance[] {
    return this.#members.filter(({ plan }) => !plan.isPassive).map(({ scheduled }) => scheduled)
  }

  /** From now on `scheduler` is told when an Instance that the rate limiter held back may run. */
  start(scheduler: WakingScheduler): void {
    this.#scheduler = scheduler
    for (const { limited } of this.#members) {
      if (limited !== null) limited.wake = () => scheduler.instancesChanged()
    }
  }

  /** The memory of all Instances; null when none of them knows its own. */
  async memoryBytes(): Promise<number | null> {
    const known = await Promise.all(
      this.#members.map(({ instance }) => instance.memoryBytes?.() ?? Promise.resolve(null)),
    )
    const told = known.filter((bytes) => bytes !== null)
    return told.length === 0 ? null : told.reduce((sum, bytes) => sum + bytes, 0)
  }

  /**
   * Changes the set to what `groups`, normalised, ask for. `use` gets the Instances to schedule, and resolves when the
   * others have nothing to do. A failure changes nothing. Resolves when new Instances are in use; others may still execute.
   */
  async resize(
    groups: readonly ModelInstanceGroup[],
    use: (instances: readonly Instance[]) => Promise<void>,
  ): Promise<void> {
    // Instances whose Worker is down leave first.
    const free = new Set(this.#members.toSorted((a, b) => Number(b.instance.isReady) - Number(a.instance.isReady)))
    const missing: InstancePlan[] = []
    const staying: Member[] = []
    for (const plan of groups.flatMap(plansOf)) {
      const match = [...free].find((member) => isSamePlan(member.plan, plan))
      if (match === undefined) missing.push(plan)
      else {
        free.delete(match)
        staying.push(match)
      }
    }
    const made = await this.#make(missing)
    this.#members = [...staying, ...made]
    for (const member of free) this.#closing.add(member)
    this.start(this.#scheduler)
    const leaving = use(this.scheduled)
      .then(() => this.#closeMembers([...free]))
      .finally(() => this.#leaving.delete(leaving))
    this.#leaving.add(leaving)
  }

  /** Resolves when all Instances are closed, also those that were leaving; rejects with the first failure. */
  async close(): Promise<void> {
    const members = this.#members
    this.#members = []
    await this.#closeMembers(members)
    await Promise.all(this.#leaving)
  }

  async #closeMembers(members: readonly Member[]): Promise<void> {
    for (const member of members) this.#closing.add(member)
    const results = await Promise.allSettled(members.map(({ scheduled }) => scheduled.close()))
    const nowNs = this.#dependencies.clock.nowNs()
    for (const member of members) {
      this.#closing.delete(member)
      this.#goneRestarts += member.instance.restartCount ?? 0
      this.#goneBusyNs += member.meter.busyNs(nowNs)
    }
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  async #make(plans: readonly InstancePlan[]): Promise<Member[]> {
    const { loaded, log, onReadinessChange, coresOf } = this.#dependencies
    const first = this.#madeCount
    this.#madeCount += plans.length
    const results = await Promise.allSettled(
      plans.map(({ name, kind, deviceId, group }, i) => {
        // Triton's line, which operators look for.
        const device = kind === 'KIND_GPU' ? 'GPU' : 'CPU'
        log.info(`TRITONBACKEND_ModelInstanceInitialize: ${name} (${device} device ${deviceId})`)
        const cores = coresOf?.(group, deviceId) ?? []
        return loaded.createInstance({ name, kind, deviceId, cores, index: first + i, onReadinessChange })
      }),
    )
    const made = results.filter((result) => result.status === 'fulfilled').map(({ value }) => value)
    const members: Member[] = []
    try {
      for (const result of results) if (result.status === 'rejected') throw result.reason
      if (made.length > 0) await this.#dependencies.warmUp(made)
      for (const [i, instance] of made.entries()) members.push(this.#member(plans[i] as InstancePlan, instance))
      return members
    } catch (reason) {
      for (const { limited } of members) if (limited !== null) this.#dependencies.rateLimiter?.forget(limited)
      await Promise.allSettled(made.map((instance) => instance.close()))
      throw reason
    }
  }

  #member(plan: InstancePlan, instance: Instance): Member {
    const { rateLimiter: limiter, clock } = this.#dependencies
    const meter = new BusyMeter(clock, instance)
    const claim = plan.rateLimiter
    if (limiter === null || plan.isPassive || claim === null || claim.resources.length === 0) {
      return { plan, instance, meter, scheduled: instance, limited: null }
    }
    const resources = claim.resources.map(({ name, count, global }) => ({ name, count, isGlobal: global }))
    const limited = limiter.limit(instance, { resources, priority: claim.priority, deviceId: plan.deviceId })
    return { plan, instance, meter, scheduled: limited, limited }
  }
}

/** An Instance serves another plan as well when all but the name is equal. */
function isSamePlan(a: InstancePlan, b: InstancePlan): boolean {
  return a.kind === b.kind && a.deviceId === b.deviceId && a.traits === b.traits
}

/** The instances that a normalised group asks for: `count` on the CPU, or on each of its GPUs. */
function plansOf(group: ModelInstanceGroup): InstancePlan[] {
  const kind = group.kind === 'KIND_AUTO' ? 'KIND_CPU' : group.kind
  const devices = kind === 'KIND_GPU' ? group.gpus : [0]
  const plans: InstancePlan[] = []
  const traits = JSON.stringify({ ...group, name: '', count: 0, gpus: [] })
  for (const deviceId of devices) {
    for (let i = 0; i < group.count; i++) {
      plans.push({
        kind,
        deviceId,
        group,
        name: `${group.name}_${plans.length}`,
        isPassive: group.passive,
        rateLimiter: group.rateLimiter,
        traits,
      })
    }
  }
  return plans
}

// `--rate-limit=execution_count`: instances of all models share resources, and an instance runs only while all resources
// it needs are free. Of several that need one resource, the one with the fewest executions × priority goes first.

import { ServerError } from '../base/server-error.ts'
import type { Instance } from '../model/backend.ts'
import type { Batch } from '../model/batch.ts'

type ResourceClaim = { readonly name: string; readonly count: number; readonly isGlobal: boolean }

export type InstanceClaim = {
  readonly resources: readonly ResourceClaim[]
  /** 0 counts as 1. */
  readonly priority: number
  readonly deviceId: number
}

export class RateLimiter {
  /** `name` or `name:device` → count; null: every resource is as large as its largest claim. */
  readonly #given: ReadonlyMap<string, number> | null
  readonly #members = new Set<LimitedInstance>()
  readonly #used = new Map<string, number>()
  /**
   * Instances that asked, may not run yet and still have work. The first of them lacks a resource that a running
   * instance holds. So this resource is released later, and then all instances here get a new offer.
   */
  readonly #denied = new Set<LimitedInstance>()
  #isOfferAwaited = false

  constructor(given: ReadonlyMap<string, number> | null) {
    this.#given = given
  }

  /** Returns the limited instance, which the scheduler uses. Throws when the instance could never run. */
  limit(instance: Instance, claim: InstanceClaim): LimitedInstance {
    const member = new LimitedInstance(this, instance, claim)
    this.#requireOneKind(member)
    for (const [key, count] of member.needs) {
      const capacity = this.#given === null ? count : this.#givenCapacity(key)
      if (capacity >= count) continue
      const name = key.slice(key.indexOf(':') + 1)
      throw new ServerError(
        'INVALID_ARG',
        `Resource count for "${name}" is limited to ${capacity} which will prevent scheduling of one or more model instances, the minimum required count is ${count}`,
      )
    }
    this.#members.add(member)
    // A resource without a given count is as large as its largest claim, so it may have grown now.
    this.#offerSoon()
    return member
  }

  /** A resource is one of the whole server or one of each device, in all models alike. */
  #requireOneKind(member: LimitedInstance): void {
    const isGlobal = new Map<string, boolean>()
    for (const { needs } of [...this.#members, member]) {
      for (const key of needs.keys()) {
        const name = key.slice(key.indexOf(':') + 1)
        if ((isGlobal.get(name) ?? key.startsWith(':')) !== key.startsWith(':')) {
          const text = `Resource "${name}" is present as both global and device-specific resource in the model configuration.`
          throw new ServerError('INVALID_ARG', text)
        }
        isGlobal.set(name, key.startsWith(':'))
      }
    }
  }

  /** The instance is closed. */
  forget(member: LimitedInstance): void {
    this.#members.delete(member)
    this.withdraw(member)
  }

  /** The instance has no more work: the instances behind it get a new offer. */
  withdraw(member: LimitedInstance): void {
    if (this.#denied.delete(member)) this.#offerSoon()
  }

  mayRun(member: LimitedInstance): boolean {
    if (this.#hasRoom(member) && !this.#isBehind(member)) return true
    this.#denied.add(member)
    return false
  }

  take(member: LimitedInstance): void {
    this.#denied.delete(member)
    for (const [key, count] of member.needs) this.#used.set(key, (this.#used.get(key) ?? 0) + count)
  }

  giveBack(member: LimitedInstance): void {
    for (const [key, count] of member.needs) this.#used.set(key, (this.#used.get(key) ?? 0) - count)
    this.#offerSoon()
  }

  #offerSoon(): void {
    if (this.#denied.size === 0 || this.#isOfferAwaited) return
    this.#isOfferAwaited = true
    // The offer comes later, so that the model that has just finished can wait in line with the others.
    queueMicrotask(() => this.#offer())
  }

  #offer(): void {
    this.#isOfferAwaited = false
    const waiting = [...this.#denied].sort((a, b) => a.share - b.share)
    this.#denied.clear()
    for (const member of waiting) member.wake()
  }

  #hasRoom(member: LimitedInstance): boolean {
    for (const [key, count] of member.needs) if ((this.#used.get(key) ?? 0) + count > this.#capacity(key)) return false
    return true
  }

  /** Whether an instance that comes first waits for a resource of `member`. Else small claims starve large ones. */
  #isBehind(member: LimitedInstance): boolean {
    for (const other of this.#denied) {
      if (other === member || other.share >= member.share) continue
      for (const key of member.needs.keys()) if (other.needs.has(key)) return true
    }
    return false
  }

  #capacity(key: string): number {
    if (this.#given !== null) return this.#givenCapacity(key)
    let most = 0
    for (const { needs } of this.#members) most = Math.max(most, needs.get(key) ?? 0)
    return most
  }

  #givenCapacity(key: string): number {
    const colon = key.indexOf(':')
    const [device, name] = [key.slice(0, colon), key.slice(colon + 1)]
    const given = this.#given
    if (device !== '') return given?.get(`${name}:${device}`) ?? given?.get(name) ?? 0
    // As in Triton the counts of devices hold for a global resource too, the largest of them.
    let most = given?.get(name) ?? 0
    for (const [each, count] of given ?? []) if (each.startsWith(`${name}:`)) most = Math.max(most, count)
    return most
  }
}

export class LimitedInstance implements Instance {
  readonly name: string
  /** `device:resource`, or `:resource` for a global resource → count. */
  readonly needs: ReadonlyMap<string, number>
  readonly #limiter: RateLimiter
  readonly #inner: Instance
  readonly #priority: number
  /** Triton counts the load and the warm-up of an instance, too: an instance of low priority begins later. */
  #executionCount = 2
  #isRunning = false
  /** The scheduler sets this. It is called when the instance may run. */
  wake: () => void = () => undefined

  constructor(limiter: RateLimiter, inner: Instance, { resources, priority, deviceId }: InstanceClaim) {
    this.name = inner.name
    this.#limiter = limiter
    this.#inner = inner
    this.#priority = Math.max(1, priority)
    const needs = new Map<string, number>()
    for (const { name, count, isGlobal } of resources) {
      const key = `${isGlobal ? '' : deviceId}:${name}`
      needs.set(key, (needs.get(key) ?? 0) + count)
    }
    this.needs = needs
  }

  /** The instance with the smallest share runs next. */
  get share(): number {
    return this.#executionCount * this.#priority
  }

  get isReady(): boolean {
    return this.#inner.isReady
  }

  get burden(): Instance['burden'] {
    return this.#inner.burden
  }

  get deviceId(): number | undefined {
    return this.#inner.deviceId
  }

  get hasHostInputs(): boolean {
    return this.#inner.hasHostInputs === true
  }

  claim(): boolean {
    // An instance that runs cannot begin again, and must not wait in line, where others would make room for it.
    return !this.#isRunning && this.#limiter.mayRun(this)
  }

  withdraw(): void {
    this.#limiter.withdraw(this)
  }

  execute(batch: Batch): void {
    this.#executionCount++
    this.#isRunning = true
    this.#limiter.take(this)
    batch.beforeExecuted(() => {
      this.#isRunning = false
      this.#limiter.giveBack(this)
    })
    this.#inner.execute(batch)
  }

  close(): Promise<void> {
    this.#limiter.forget(this)
    return this.#inner.close()
  }
}

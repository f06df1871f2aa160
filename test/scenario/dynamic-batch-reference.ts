// The rules of the dynamic batcher again, slow and obvious: arrays, sorting, and a look at everything at every
// microsecond. It shares no code with src/scheduling, so that the two can only agree by both being right.

export type ReferenceSettings = {
  readonly maxBatchSize: number
  readonly preferred: readonly number[]
  readonly delayUs: number
  readonly levels: number
  readonly defaultLevel: number
  readonly policy: {
    readonly action: 'REJECT' | 'DELAY'
    readonly timeoutUs: number
    readonly allowsOverride: boolean
    readonly maxQueueSize: number
  } | null
  readonly defaultBound: number
  readonly instanceCount: number
  readonly preservesOrder: boolean
  /** Lengths that inputs are padded to; empty: to the longest, where none is more than twice another or
   * above 16; null: they are not padded, and only equals run together. */
  readonly buckets: readonly number[] | null
}

export type Arrival = {
  readonly rows: number
  readonly priority: number
  readonly timeoutUs: number
  /** Of its input of open length. */
  readonly length: number
  /** Of its ragged input, which never matters. */
  readonly raggedLength: number
  /** Whether it brings the optional input: those that do and those that do not never run together. */
  readonly hasOptional: boolean
}

type Pending = Arrival & {
  readonly id: number
  readonly level: number
  readonly sinceUs: number
  deadlineUs: number
  /** Counts up when DELAY puts a request back; 0 = on time. */
  putBack: number
}

export class ReferenceBatcher {
  readonly log: string[] = []
  readonly running: { readonly ids: readonly number[]; readonly instance: number }[] = []
  readonly #settings: ReferenceSettings
  readonly #isReady: boolean[]
  #idle: number[]
  #used: readonly number[]
  #pending: Pending[] = []
  /** Of batches that failed: each is to run once more, alone, before anybody else. */
  #again: number[] = []
  /** While they ran, or after their end. */
  readonly #cancelled = new Set<number>()
  #nowUs = 0
  #putBackCount = 0
  #isDraining = false
  #isTurnOpen = false
  /** Admitted requests in order of arrival, and what they would be told. */
  #order: { readonly id: number; outcome: string | null }[] = []

  constructor(settings: ReferenceSettings) {
    this.#settings = settings
    this.#isReady = Array.from({ length: settings.instanceCount }, () => true)
    this.#used = this.#isReady.map((_, i) => i)
    this.#idle = this.#used.toReversed()
  }

  get pendingCount(): number {
    return this.#pending.length + this.#again.length
  }

  arrive(id: number, arrival: Arrival): void {
    const { levels, defaultLevel, maxBatchSize } = this.#settings
    if (this.#isDraining) return void this.log.push(`end ${id} UNAVAILABLE`)
    const level = arrival.priority < 1 || arrival.priority > levels ? defaultLevel : arrival.priority
    if (this.#isFull(level) && this.#isTurnOpen) this.settle()
    const done = this.#settings.preservesOrder ? this.#order.filter((each) => each.outcome !== null).length : 0
    const isHeldUp = done >= this.#settings.defaultBound
    if (this.#isFull(level) || isHeldUp) return void this.log.push(`end ${id} UNAVAILABLE`)
    const timeoutUs = this.#timeoutOf(arrival)
    const deadlineUs = timeoutUs === 0 ? Infinity : this.#nowUs + timeoutUs
    this.#pending.push({ ...arrival, id, level, sinceUs: this.#nowUs, deadlineUs, putBack: 0 })
    this.#order.push({ id, outcome: null })
    if (this.#idle.length === 0) return
    this.#isTurnOpen = true
    if (this.#pending.reduce((sum, each) => sum + each.rows, 0) >= maxBatchSize) this.settle()
  }

  cancel(id: number): void {
    const isWaiting = this.#pending.some((each) => each.id === id) || this.#again.includes(id)
    if (!isWaiting) return void this.#cancelled.add(id)
    this.#leave(id)
  }

  #leave(id: number): void {
    this.#pending = this.#pending.filter((each) => each.id !== id)
    this.#again = this.#again.filter((each) => each !== id)
    this.#order = this.#order.filter((each) => each.id !== id)
    this.log.push(`end ${id} CANCELLED`)
    this.#release()
  }

  advance(us: number): void {
    for (let i = 0; i < us; i++) {
      this.#nowUs++
      this.settle()
    }
  }

  finish(position: number, outcome: string): void {
    const [batch] = this.running.splice(position, 1)
    if (batch === undefined) return
    for (const id of batch.ids) this.#end(id, outcome)
    if (this.#used.includes(batch.instance)) this.#idle.push(batch.instance)
    this.settle()
  }

  /** One of the requests was bad; which one is known only when it ran alone. */
  fail(position: number): void {
    const batch = this.running[position]
    if (batch === undefined || batch.ids.length === 1) return this.finish(position, 'INTERNAL')
    this.running.splice(position, 1)
    for (const id of batch.ids) {
      if (this.#cancelled.has(id)) this.#leave(id)
      else this.#again.push(id)
    }
    if (this.#used.includes(batch.instance)) this.#idle.push(batch.instance)
    this.settle()
  }

  setReady(instance: number, isReady: boolean): void {
    this.#isReady[instance] = isReady
  }

  /** These take requests from now on; one that was never seen before is ready. */
  setInstances(instances: readonly number[]): void {
    for (const instance of instances) this.#isReady[instance] ??= true
    this.#used = instances
    this.#idle = instances.filter((instance) => !this.running.some((batch) => batch.instance === instance)).toReversed()
    this.settle()
  }

  drain(): void {
    this.#isDraining = true
    this.settle()
  }

  /** Refuses what waited too long, then starts every batch that can be started. */
  settle(): void {
    this.#isTurnOpen = false
    for (;;) {
      this.#expire()
      const at = this.#idle.findLastIndex((instance) => this.#isReady[instance])
      const lone = at < 0 ? [] : this.#again.splice(0, 1)
      const count = at < 0 || lone.length > 0 ? 0 : this.#nextBatch()
      if (count === 0 && lone.length === 0) return
      const together = this.#inOrder().slice(0, count)
      const ids = [...lone, ...together.map((each) => each.id)]
      this.#pending = this.#pending.filter((each) => !ids.includes(each.id))
      const [instance] = this.#idle.splice(at, 1)
      this.running.push({ ids, instance: instance as number })
      this.log.push(`run ${ids.join('+')}`)
    }
  }

  #isFull(level: number): boolean {
    const bound = this.#settings.policy?.maxQueueSize ?? 0
    if (bound > 0) return this.#pending.filter((each) => each.level === level).length >= bound
    return this.#pending.length >= this.#settings.defaultBound
  }

  #timeoutOf({ timeoutUs }: Arrival): number {
    const { policy } = this.#settings
    if (policy === null) return timeoutUs
    const shortens = policy.allowsOverride && timeoutUs > 0 && timeoutUs < policy.timeoutUs
    return shortens ? timeoutUs : policy.timeoutUs
  }

  #inOrder(): Pending[] {
    return this.#pending.toSorted((a, b) => a.level - b.level || a.putBack - b.putBack || a.id - b.id)
  }

  #expire(): void {
    const byDeadline = this.#pending.toSorted((a, b) => a.deadlineUs - b.deadlineUs || a.id - b.id)
    for (const each of byDeadline) {
      if (each.deadlineUs > this.#nowUs) break
      if (this.#settings.policy?.action === 'DELAY') {
        each.deadlineUs = Infinity
        each.putBack = ++this.#putBackCount
      } else {
        this.#pending = this.#pending.filter((other) => other !== each)
        this.#end(each.id, 'UNAVAILABLE')
      }
    }
  }

  /** How many requests, from the front, run now; 0: none. */
  #nextBatch(): number {
    const { maxBatchSize, preferred, delayUs } = this.#settings
    const largest = preferred.length === 0 ? maxBatchSize : Math.max(...preferred)
    const line = this.#inOrder()
    const rowsOf = (count: number): number => line.slice(0, count).reduce((sum, each) => sum + each.rows, 0)
    let most = line.length
    for (let count = 2; count <= line.length; count++) {
      if (rowsOf(count) > maxBatchSize || !this.#agree(line[0] as Pending, line[count - 1] as Pending)) {
        most = count - 1
        break
      }
    }
    if (most === 0) return 0
    let best = 0
    for (let count = 1; count <= most; count++) if (preferred.includes(rowsOf(count))) best = count
    for (let count = 1; count <= most && best === 0; count++) {
      if (count < line.length && rowsOf(count + 1) > largest) best = count
    }
    const oldestUs = Math.min(...line.slice(0, most).map((each) => each.sinceUs))
    const isLate = delayUs > 0 && this.#nowUs >= oldestUs + delayUs
    if (best > 0 && !isLate) return best
    const cannotGrow = most < line.length || rowsOf(most) >= largest
    return cannotGrow || isLate || delayUs === 0 || this.#isDraining ? most : 0
  }

  #agree(a: Arrival, b: Arrival): boolean {
    if (a.hasOptional !== b.hasOptional) return false
    const { buckets } = this.#settings
    if (buckets === null) return a.length === b.length
    if (buckets.length === 0) {
      const classOf = ({ length }: Arrival): number => (length <= 16 ? 16 : 100 + (length - 1).toString(2).length)
      return classOf(a) === classOf(b)
    }
    const bucketOf = ({ length }: Arrival): number => Math.min(...buckets.filter((edge) => edge >= length), Infinity)
    return bucketOf(a) === bucketOf(b) && (bucketOf(a) < Infinity || a.length === b.length)
  }

  #end(id: number, outcome: string): void {
    const place = this.#order.find((each) => each.id === id)
    if (place === undefined) return
    place.outcome = outcome
    if (this.#settings.preservesOrder) return this.#release()
    this.#order = this.#order.filter((each) => each !== place)
    this.log.push(`end ${id} ${outcome}`)
  }

  #release(): void {
    if (!this.#settings.preservesOrder) return
    for (let first = this.#order[0]; first?.outcome != null; first = this.#order[0]) {
      this.#order.shift()
      this.log.push(`end ${first.id} ${first.outcome}`)
    }
  }
}

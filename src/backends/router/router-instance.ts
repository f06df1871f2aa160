import type { Instance, InstanceSpec } from '../../model/backend.ts'
import type { Batch } from '../../model/batch.ts'
import { RandomDraws, StickyBuckets } from '../../rollouts/assignment.ts'
import { RoutedCall, type Router } from './routed-call.ts'

/** Requests of one instance that are under way at once. The others wait in the queue of the router. */
const mostUnderWay = 1024

export class RouterInstance implements Instance {
  readonly name: string
  readonly isReady = true
  readonly #router: Router
  readonly #draw: (key: string | null) => number
  readonly #running = new Set<RoutedCall>()
  /** The batch that was taken last, while there is no room for another request. */
  #held: Batch | null = null

  constructor(router: Router, spec: InstanceSpec) {
    this.name = spec.name
    this.#router = router
    const buckets = new StickyBuckets(router.name)
    const draws = new RandomDraws(Math.floor(router.clock.nowNs()))
    this.#draw = (key) => (key === null ? draws.bucket() : buckets.bucket(key))
  }

  execute(batch: Batch): void {
    const startNs = batch.startNs(this.#router.clock)
    for (const request of batch.requests) {
      request.computeStartNs = startNs
      request.computeInputEndNs = startNs
      const call = new RoutedCall(this.#router, request, this.#draw)
      this.#running.add(call)
      void call.run().then(() => this.#ended(call))
    }
    if (this.#running.size < mostUnderWay) batch.executed()
    else this.#held = batch
  }

  close(): Promise<void> {
    for (const call of this.#running) call.cancel()
    this.#goOn()
    return Promise.resolve()
  }

  #ended(call: RoutedCall): void {
    this.#running.delete(call)
    this.#goOn()
  }

  /** There is room again: the instance takes the next batch. */
  #goOn(): void {
    const held = this.#held
    this.#held = null
    held?.executed()
  }
}

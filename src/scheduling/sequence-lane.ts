import type { Cancel } from '../base/clock.ts'
import type { Instance } from '../model/backend.ts'
import type { SequenceQueue } from './sequence-queue.ts'

/** One Instance and the sequences that are bound to it. */
export class SequenceLane {
  readonly instance: Instance
  readonly slots: (SequenceQueue | null)[]
  isExecuting = false
  isDispatching = false
  cancelWake: Cancel | null = null
  /** Set on a lane whose Instance was taken away: no sequence begins on it, and this is called after the last one. */
  onLeft: (() => void) | null = null

  constructor(instance: Instance, slotCount: number) {
    this.instance = instance
    this.slots = Array.from<SequenceQueue | null>({ length: slotCount }).fill(null)
  }

  /** Those with a request that may run now, in slot order. */
  ready(): SequenceQueue[] {
    const ready: SequenceQueue[] = []
    for (const sequence of this.slots) if (sequence !== null && sequence.canRun) ready.push(sequence)
    return ready
  }

  get isEmpty(): boolean {
    return !this.isExecuting && this.slots.every((sequence) => sequence === null)
  }

  forgetWake(): void {
    this.cancelWake?.()
    this.cancelWake = null
  }
}

// How often each arm answers with each class.

import { driftStarts, lessClasses, noDriftSums, type ClassCounts, type DriftSums } from './drift-test.ts'
import type { ArmName } from './paired-values.ts'
import { StartMarks } from './start-marks.ts'

export class CountedClasses {
  readonly #counts: Readonly<Record<ArmName, number[]>>
  readonly #marks: StartMarks<ClassCounts>
  #hasNew = false

  constructor(classes: number, known: Partial<DriftSums> | undefined) {
    const sums = { ...noDriftSums(classes), ...known }
    this.#counts = { candidate: [...sums.candidate], stable: [...sums.stable] }
    this.#marks = new StartMarks<ClassCounts>(driftStarts, sums, () => this.#counts, lessClasses)
  }

  /** HOT: once per judged request. Classes beyond the last one count as the last one. */
  add(arm: ArmName, index: number): void {
    const counts = this.#counts[arm]
    const at = Math.min(Math.max(0, index), counts.length - 1)
    counts[at] = (counts[at] as number) + 1
    if (arm === 'candidate') this.#hasNew = true
  }

  tick(): void {
    if (!this.#hasNew) return
    this.#hasNew = false
    this.#marks.tick()
  }

  sums(): DriftSums {
    const { candidate, stable } = this.#counts
    return { candidate: [...candidate], stable: [...stable], ...this.#marks.since() }
  }
}

// The metrics of one instance of a language model, under Galatea's names and, where that is asked for, under vLLM's.

import { languageFamilies, type LanguageFamily } from '../llm/language-families.ts'
import type { CustomMetrics } from '../model/custom-metrics.ts'

export type LanguageMetricNames = 'galatea' | 'vllm'

type FamilyKey = keyof typeof languageFamilies
type Operation = 'increment' | 'set' | 'observe'
const operations = { counter: 'increment', gauge: 'set', histogram: 'observe' } as const satisfies Record<
  string,
  Operation
>

export class LanguageMetrics {
  readonly #metrics: CustomMetrics
  readonly #names: LanguageMetricNames
  readonly #model: string
  readonly #version: string
  readonly #instance: string
  /** By family, and by the value of its own label. */
  readonly #series = new Map<string, readonly number[]>()

  constructor(
    metrics: CustomMetrics,
    names: LanguageMetricNames,
    place: { readonly model: string; readonly version: string; readonly instance: string },
  ) {
    this.#metrics = metrics
    this.#names = names
    this.#model = place.model
    this.#version = place.version
    this.#instance = place.instance
    for (const key of Object.keys(languageFamilies) as FamilyKey[]) {
      if (languageFamilies[key].label === '') this.#find(key, '')
    }
  }

  /** Counts, sets or observes, by the kind of the family. */
  note(key: FamilyKey, value: number, label = ''): void {
    const operation = operations[languageFamilies[key].kind]
    for (const series of this.#find(key, label)) this.#metrics[operation](series, value)
  }

  close(): void {
    for (const each of this.#series.values()) for (const series of each) this.#metrics.remove(series)
    this.#series.clear()
  }

  #find(key: FamilyKey, label: string): readonly number[] {
    const place = `${key} ${label}`
    let found = this.#series.get(place)
    if (found === undefined) {
      const family: LanguageFamily = languageFamilies[key]
      const names = this.#names === 'vllm' && family.vllmName !== '' ? [family.name, family.vllmName] : [family.name]
      found = names.map((name) => this.#create(name, family, label))
      this.#series.set(place, found)
    }
    return found
  }

  #create(name: string, family: LanguageFamily, label: string): number {
    const own: [string, string][] = family.label === '' ? [] : [[family.label, label]]
    const labels: [string, string][] = name.startsWith('vllm:')
      ? [['model_name', this.#model], ['engine', this.#instance], ...own]
      : [['model', this.#model], ['version', this.#version], ['instance', this.#instance], ...own] // prettier-ignore
    this.#metrics.createFamily(name, family.help, family.kind)
    return this.#metrics.createMetric(name, new Map(labels), family.buckets)
  }
}

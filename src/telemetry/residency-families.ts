// Metric families about which models are in memory: the page prints this table and the reference is made from it.

import { histogramLines, labelText, namespaceLabel, sampleLine, type MetricsText } from './metrics-text.ts'
import { coldStartBounds, type ResidencyLedger } from './residency-ledger.ts'

export type ResidencySources = {
  readonly ledger: ResidencyLedger
  readonly models: () => Iterable<ModelResidence>
}

export type ModelResidence = {
  readonly model: string
  /** Undefined where models have no namespaces. */
  readonly namespace?: string | undefined
  /** By version; `SLEEPING` for one that is loaded on the next request. */
  readonly states: ReadonlyMap<string, string>
  /** 0: not in memory, or not known. */
  readonly memoryBytes: number
}

type ResidencyFamily = {
  readonly name: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly help: string
  readonly label: string
  readonly lines: (text: MetricsText, sources: ResidencySources) => Iterable<string>
}

export const residencyFamilies: readonly ResidencyFamily[] = [
  {
    name: 'galatea_model_state',
    type: 'gauge',
    help: '1 for the state that a model version is in: LOADING, READY, UNLOADING, UNAVAILABLE, or SLEEPING until a request comes',
    label: 'state',
    *lines(text, { models }) {
      for (const { model, namespace, states } of models()) {
        for (const [version, state] of states) {
          const labels = labelText([
            ['model', model],
            ...namespaceLabel(namespace),
            ['version', version],
            ['state', state],
          ])
          yield sampleLine(text, this.name, labels, 1)
        }
      }
    },
  },
  {
    name: 'galatea_model_memory_bytes',
    type: 'gauge',
    help: 'Memory that a model is reckoned to take: as declared or measured, else the size of its files',
    label: '',
    *lines(text, { models }) {
      for (const { model, namespace, memoryBytes } of models()) {
        const labels = labelText([['model', model], ...namespaceLabel(namespace)])
        if (memoryBytes > 0) yield sampleLine(text, this.name, labels, memoryBytes)
      }
    },
  },
  {
    name: 'galatea_cold_start_seconds',
    type: 'histogram',
    help: 'Time from the first request for a model that was not in memory until it could be executed',
    label: 'le',
    *lines(text, { ledger }) {
      for (const [model, { counts, sum }] of ledger.coldStarts()) {
        yield histogramLines(text, this.name, labelText([['model', model]]), { bounds: coldStartBounds, counts, sum })
      }
    },
  },
  {
    name: 'galatea_evictions_total',
    type: 'counter',
    help: 'How often a model left the memory: to make room (memory) or for want of requests (idle)',
    label: 'reason',
    *lines(text, { ledger }) {
      for (const [model, counts] of ledger.evictions()) {
        for (const [reason, count] of counts) {
          yield sampleLine(text, this.name, labelText(Object.entries({ model, reason })), count)
        }
      }
    },
  },
]

/** Piece by piece, so that many models need not be written in one go. */
export function* residencyPieces(text: MetricsText, sources: ResidencySources): IterableIterator<string> {
  for (const family of residencyFamilies) {
    let hasHead = false
    for (const lines of family.lines(text, sources)) {
      yield hasHead ? lines : text.familyHead(family.name, family.help, family.type) + lines
      hasHead = true
    }
  }
}

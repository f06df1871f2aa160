// The ORCA header of the generate endpoints: tells load balancers that ask how full a language model's cache is.

import { languageFamilies } from '../../llm/language-families.ts'

/** The part of the models' custom metrics that the header needs. */
export type LoadMetricSource = {
  families(): Iterable<{
    readonly name: string
    readonly kind?: string
    readonly series: ReadonlyMap<string, LoadSeries>
  }>
}
type LoadSeries = { readonly labels: readonly (readonly [name: string, value: string])[]; readonly value: number }

const familyName = 'nv_trt_llm_kv_cache_block_metrics'
const blockLabel = 'kv_cache_block_type'

/** The header's value; null when the format is unknown or no model has metrics of its cache. */
export function endpointLoadMetrics(format: string, source: LoadMetricSource): string | null {
  const isJson = format === 'json'
  if (!isJson && format !== 'text') return null
  const named = cacheFigures(source)
  const [utilization, capacity] = [named.get('kv_cache_utilization'), named.get('max_token_capacity')]
  if (utilization === undefined || capacity === undefined) return null
  if (isJson) {
    const metrics = { kv_cache_utilization: utilization, max_token_capacity: capacity }
    return `JSON ${JSON.stringify({ named_metrics: metrics })}`
  }
  return `TEXT named_metrics.kv_cache_utilization=${utilization.toFixed(6)}, named_metrics.max_token_capacity=${capacity}`
}

/** How full the cache of a language model is, under ORCA's names; empty when no model tells. */
export function cacheFigures(source: LoadMetricSource): ReadonlyMap<string, number> {
  const blocks = cacheBlocks(source)
  const [tokensPerBlock, used, max] = [blocks.get('tokens_per'), blocks.get('used'), blocks.get('max')]
  if (tokensPerBlock === undefined || used === undefined || max === undefined || !(max > 0)) return noFigures
  return new Map([
    ['kv_cache_utilization', used / max],
    ['max_token_capacity', Math.trunc(tokensPerBlock * max)],
  ])
}

const noFigures: ReadonlyMap<string, number> = new Map()

/** A model of the backend `llamacpp` counts the tokens of its cache, and not blocks of them. */
function cacheBlocks(source: LoadMetricSource): Map<string, number> {
  const blocks = new Map<string, number>()
  for (const { name, series } of source.families()) {
    const kinds = name === languageFamilies.cells.name ? 'max' : name === languageFamilies.usedCells.name ? 'used' : ''
    const [cells] = series.values()
    if (kinds !== '' && cells !== undefined) blocks.set('tokens_per', 1).set(kinds, cells.value)
    if (name !== familyName) continue
    for (const { labels, value } of series.values()) {
      const kind = labels.find(([label]) => label === blockLabel)?.[1]
      if (kind !== undefined) blocks.set(kind, value)
    }
  }
  return blocks
}

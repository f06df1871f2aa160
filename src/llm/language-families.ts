// Every metric family of language models, with the name that vLLM has for the same: backends make them from this table, and so is
// the reference.

export type LanguageFamily = {
  readonly name: string
  /** '': vLLM has no such family. */
  readonly vllmName: string
  readonly kind: 'counter' | 'gauge' | 'histogram'
  /** A label beside those of the model; '': none. */
  readonly label: string
  readonly help: string
  readonly buckets: readonly number[] | null
}

const family = (
  kind: LanguageFamily['kind'],
  name: string,
  vllmName: string,
  help: string,
  { label = '', buckets = null }: Partial<Pick<LanguageFamily, 'label' | 'buckets'>> = {},
): LanguageFamily => ({ name, vllmName, kind, label, help, buckets })

const firstSeconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const nextSeconds = [0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.4, 1, 2.5]
const wholeSeconds = [0.1, 0.3, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300]

export const languageFamilies = {
  firstToken: family('histogram', 'galatea_llm_time_to_first_token_seconds', 'vllm:time_to_first_token_seconds', 'Time from the arrival of a request to its first token', { buckets: firstSeconds }),
  nextToken: family('histogram', 'galatea_llm_inter_token_seconds', 'vllm:inter_token_latency_seconds', 'Time between two tokens of one answer', { buckets: nextSeconds }),
  request: family('histogram', 'galatea_llm_request_seconds', 'vllm:e2e_request_latency_seconds', 'Time from the arrival of a request to the end of its answer', { buckets: wholeSeconds }),
  ended: family('counter', 'galatea_llm_requests_total', 'vllm:request_success_total', 'Answers that ended, by their reason: stop, length or cancelled', { label: 'finished_reason' }),
  promptTokens: family('counter', 'galatea_llm_prompt_tokens_total', 'vllm:prompt_tokens_total', 'Tokens of prompts, those that were not computed anew included'),
  generatedTokens: family('counter', 'galatea_llm_generated_tokens_total', 'vllm:generation_tokens_total', 'Tokens of answers'),
  hitTokens: family('counter', 'galatea_llm_prefix_hit_tokens_total', 'vllm:prefix_cache_hits_total', 'Tokens of prompts that were in memory and not computed anew'),
  lookedTokens: family('counter', 'galatea_llm_prefix_tokens_total', 'vllm:prefix_cache_queries_total', 'Tokens of prompts that were looked for in memory'),
  preemptions: family('counter', 'galatea_llm_preemptions_total', 'vllm:num_preemptions_total', 'How often a request gave its memory back and began anew'),
  steps: family('counter', 'galatea_llm_steps_total', '', 'Steps that were computed'),
  running: family('gauge', 'galatea_llm_running_requests', 'vllm:num_requests_running', 'Requests that are computed'),
  waiting: family('gauge', 'galatea_llm_waiting_requests', 'vllm:num_requests_waiting', 'Requests in the engine that wait for a place or for memory'),
  cellUse: family('gauge', 'galatea_llm_kv_use_ratio', 'vllm:kv_cache_usage_perc', 'Share of the memory of tokens that is in use, from 0 to 1'),
  usedCells: family('gauge', 'galatea_llm_kv_cells_used', '', 'Tokens that are in memory, those that only wait for reuse included'),
  routed: family('counter', 'galatea_llm_routed_requests_total', '', 'Requests of a router, by the model that answered', { label: 'target' }),
  routeFailures: family('counter', 'galatea_llm_route_failures_total', '', 'Requests of a router that another model got, by the model that was full, away or failed', { label: 'target' }),
  cells: family('gauge', 'galatea_llm_kv_cells', '', 'Tokens that the memory holds'),
} as const satisfies Record<string, LanguageFamily> // prettier-ignore

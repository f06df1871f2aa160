// The part of llama.cpp's C API that the engine calls, through koffi. An address is a number here: user space is below 2^47,
// and a number costs koffi less than a bigint. Structs are passed by value and differ between versions of llama.cpp, so the
// defaults that the library gives are compared with those of the version that is known here.

import { readdirSync } from 'node:fs'
import path from 'node:path'
import { loadKoffi } from '../../../base/koffi.ts'
import { ServerError } from '../../../base/server-error.ts'
import { cudaFiles } from '../find-llama-library.ts'
import { askDriver } from './gpu-code.ts'
import { loadCuda, noGpu, type CudaLoad } from './load-cuda.ts'

const koffi = loadKoffi()
// koffi gives a call that runs beside others a stack of 128 KiB. The driver of a GPU compiles code in such a call and needs more.
const stackBytes = 8 * 1024 * 1024
koffi.config({ ...koffi.config(), sync_stack_size: stackBytes, async_stack_size: stackBytes })

/** Fields in the order of llama.h of API 0.5, which @node-llama-cpp 3.22 has. */
koffi.struct('llama_model_params', {
  devices: 'uintptr_t', tensor_buft_overrides: 'uintptr_t', n_gpu_layers: 'int32_t', split_mode: 'int32_t', load_mode: 'int32_t',
  lazy_mode: 'int32_t', main_gpu: 'int32_t', tensor_split: 'uintptr_t', progress_callback: 'uintptr_t', progress_user: 'uintptr_t',
  kv_overrides: 'uintptr_t', vocab_only: 'bool', check_tensors: 'bool', use_extra_bufts: 'bool', no_host: 'bool', no_alloc: 'bool',
  load_mtp: 'bool',
}) // prettier-ignore
koffi.struct('llama_context_params', {
  n_ctx: 'uint32_t', n_batch: 'uint32_t', n_ubatch: 'uint32_t', n_seq_max: 'uint32_t', n_rs_seq: 'uint32_t',
  n_outputs_max: 'uint32_t', n_outputs_max_per_seq: 'uint32_t', n_threads: 'int32_t', n_threads_batch: 'int32_t',
  ctx_type: 'int32_t', rope_scaling_type: 'int32_t', pooling_type: 'int32_t', attention_type: 'int32_t', flash_attn_type: 'int32_t',
  rope_freq_base: 'float', rope_freq_scale: 'float', yarn_ext_factor: 'float', yarn_attn_factor: 'float',
  yarn_beta_fast: 'float', yarn_beta_slow: 'float', yarn_orig_ctx: 'uint32_t', defrag_thold: 'float',
  cb_eval: 'uintptr_t', cb_eval_user: 'uintptr_t', type_k: 'int32_t', type_v: 'int32_t', abort_callback: 'uintptr_t',
  abort_data: 'uintptr_t', embeddings: 'bool', offload_kqv: 'bool', no_perf: 'bool', op_offload: 'bool', swa_full: 'bool',
  kv_unified: 'bool', samplers: 'uintptr_t', n_samplers: 'size_t', ctx_other: 'uintptr_t',
}) // prettier-ignore
koffi.struct('llama_model_quantize_params', {
  nthread: 'int32_t', ftype: 'int32_t', output_tensor_type: 'int32_t', token_embedding_type: 'int32_t', allow_requantize: 'bool',
  quantize_output_tensor: 'bool', only_copy: 'bool', pure: 'bool', keep_split: 'bool', dry_run: 'bool', imatrix: 'uintptr_t',
  kv_overrides: 'uintptr_t', tensor_types: 'uintptr_t', prune_layers: 'uintptr_t',
}) // prettier-ignore
koffi.struct('llama_batch', {
  n_tokens: 'int32_t', token: 'uintptr_t', embd: 'uintptr_t', pos: 'uintptr_t', n_seq_id: 'uintptr_t', seq_id: 'uintptr_t',
  logits: 'uintptr_t',
}) // prettier-ignore
koffi.struct('llama_sampler_chain_params', { no_perf: 'bool' })
koffi.struct('llama_token_data_array', { data: 'uintptr_t', size: 'size_t', selected: 'int64_t', sorted: 'bool' })
koffi.struct('ggml_threadpool_params', {
  cpumask: koffi.array('uint8_t', 512), n_threads: 'int32_t', prio: 'int32_t', poll: 'uint32_t', strict_cpu: 'bool', paused: 'bool',
}) // prettier-ignore
const logCallback = koffi.proto('void llama_log(int level, const char *text, uintptr_t user)')

type Call<Result> = (...values: unknown[]) => Result
type AsyncCall<Result> = Call<Result> & {
  async: (...values: [...unknown[], (error: Error | null, result: Result) => void]) => void
}
type StructValue = Record<string, number | bigint | boolean>
export type LlamaLibrary = ReturnType<typeof openLlamaLibrary>

/** Levels of ggml's log: 3 is a warning, 4 an error. Lines without an end are continued with level 5. */
type OnLog = (level: number, text: string) => void

/**
 * `folder` has libllama, libggml, libggml-base and the variants of libggml-cpu. `gpu` is the GPU to compute on; null: none. Throws where the
 * library is another version, and where the GPU cannot be used.
 */
export function openLlamaLibrary(folder: string, onLog: OnLog, gpu: number | null = null) {
  const files = libraryFiles(folder)
  const base = koffi.load(files.base)
  const ggml = koffi.load(files.ggml)
  const llama = koffi.load(files.llama)
  const bind = <Result>(definition: string): Call<Result> => llama.func(definition) as unknown as Call<Result>
  const at = 'uintptr_t'
  const library = {
    modelDefaults: bind<StructValue>('llama_model_params llama_model_default_params()'),
    contextDefaults: bind<StructValue>('llama_context_params llama_context_default_params()'),
    loadModel: bind<number>(`${at} llama_model_load_from_file(const char *path, llama_model_params params)`),
    rewriteDefaults: bind<StructValue>('llama_model_quantize_params llama_model_quantize_default_params()'),
    rewriteModel: bind<number>(
      'uint32_t llama_model_quantize(const char *from, const char *to, llama_model_quantize_params *params)',
    ),
    createContext: bind<number>(`${at} llama_init_from_model(${at} model, llama_context_params params)`),
    freeModel: bind<void>(`void llama_model_free(${at} model)`),
    freeContext: bind<void>(`void llama_free(${at} context)`),
    vocabulary: bind<number>(`${at} llama_model_get_vocab(${at} model)`),
    tokenCount: bind<number>(`int32_t llama_vocab_n_tokens(${at} vocabulary)`),
    isEndToken: bind<boolean>(`bool llama_vocab_is_eog(${at} vocabulary, int32_t token)`),
    separatorToken: bind<number>(`int32_t llama_vocab_sep(${at} vocabulary)`),
    endToken: bind<number>(`int32_t llama_vocab_eos(${at} vocabulary)`),
    beginToken: bind<number>(`int32_t llama_vocab_bos(${at} vocabulary)`),
    embeddingLength: bind<number>(`int32_t llama_model_n_embd(${at} model)`),
    hasEncoder: bind<boolean>(`bool llama_model_has_encoder(${at} model)`),
    hasDecoder: bind<boolean>(`bool llama_model_has_decoder(${at} model)`),
    isRecurrent: bind<boolean>(`bool llama_model_is_recurrent(${at} model)`),
    isHybrid: bind<boolean>(`bool llama_model_is_hybrid(${at} model)`),
    contextCells: bind<number>(`uint32_t llama_n_ctx(${at} context)`),
    poolingOf: bind<number>(`int32_t llama_pooling_type(${at} context)`),
    canUseGpus: bind<boolean>('bool llama_supports_gpu_offload()'),
    setThreads: bind<void>(`void llama_set_n_threads(${at} context, int32_t answers, int32_t prompts)`),
    memory: bind<number>(`${at} llama_get_memory(${at} context)`),
    removeCells: bind<boolean>(`bool llama_memory_seq_rm(${at} memory, int32_t sequence, int32_t from, int32_t to)`),
    copyCells: bind<void>(
      `void llama_memory_seq_cp(${at} memory, int32_t source, int32_t target, int32_t from, int32_t to)`,
    ),
    decode: bind<number>(`int32_t llama_decode(${at} context, llama_batch batch)`) as AsyncCall<number>,
    encode: bind<number>(`int32_t llama_encode(${at} context, llama_batch batch)`) as AsyncCall<number>,
    logitsAt: bind<number>(`${at} llama_get_logits_ith(${at} context, int32_t index)`),
    embeddingOf: bind<number>(`${at} llama_get_embeddings_seq(${at} context, int32_t sequence)`),
    tokenize: bind<number>(
      `int32_t llama_tokenize(${at} vocabulary, ${at} text, int32_t length, ${at} tokens, int32_t most, bool special, bool parse)`,
    ) as AsyncCall<number>,
    pieceOf: bind<number>(
      `int32_t llama_token_to_piece(${at} vocabulary, int32_t token, ${at} buffer, int32_t length, int32_t strip, bool special)`,
    ),
    ...samplerCalls(bind),
    openAdapter: bind<number>(`${at} llama_adapter_lora_init(${at} model, const char *path)`),
    setAdapters: bind<number>(
      `int32_t llama_set_adapters_lora(${at} context, ${at} adapters, size_t count, ${at} scales)`,
    ),
  }
  const quiet = koffi.register((level: number, text: string) => onLog(level, text), koffi.pointer(logCallback))
  bind<void>('void llama_log_set(llama_log *callback, uintptr_t user)')(quiet, 0)
  const cuda = loadBackends(ggml, folder, gpu)
  bind<void>('void llama_backend_init()')()
  requireKnownVersion(library.contextDefaults(), files.llama)
  const isUnfit = cuda !== null && cuda.file === null && cuda.obstacles.length > 0
  if (cuda !== null && (isUnfit || !library.canUseGpus())) throw noGpu(folder, cuda)
  return { ...library, attachThreads: threadAttacher(base, ggml, bind) }
}

type Bind = <Result>(definition: string) => Call<Result>

/** What chooses a token of logits. */
function samplerCalls(bind: Bind) {
  const at = 'uintptr_t'
  return {
    chainDefaults: bind<StructValue>('llama_sampler_chain_params llama_sampler_chain_default_params()'),
    createChain: bind<number>(`${at} llama_sampler_chain_init(llama_sampler_chain_params params)`),
    addToChain: bind<void>(`void llama_sampler_chain_add(${at} chain, ${at} sampler)`),
    freeSampler: bind<void>(`void llama_sampler_free(${at} sampler)`),
    sample: bind<number>(`int32_t llama_sampler_sample(${at} sampler, ${at} context, int32_t index)`),
    applySampler: bind<void>(`void llama_sampler_apply(${at} sampler, _Inout_ llama_token_data_array *candidates)`),
    acceptToken: bind<void>(`void llama_sampler_accept(${at} sampler, int32_t token)`),
    greedy: bind<number>(`${at} llama_sampler_init_greedy()`),
    random: bind<number>(`${at} llama_sampler_init_dist(uint32_t seed)`),
    temperature: bind<number>(`${at} llama_sampler_init_temp(float temperature)`),
    topK: bind<number>(`${at} llama_sampler_init_top_k(int32_t k)`),
    topP: bind<number>(`${at} llama_sampler_init_top_p(float p, size_t least)`),
    minP: bind<number>(`${at} llama_sampler_init_min_p(float p, size_t least)`),
    grammar: bind<number>(`${at} llama_sampler_init_grammar(${at} vocabulary, const char *text, const char *root)`),
  }
}

type Loaded = ReturnType<typeof koffi.load>

/** Loads what computes: the variant for this processor, and the part for GPUs. Null: GPUs are not asked for. */
function loadBackends(ggml: Loaded, folder: string, gpu: number | null): CudaLoad | null {
  const load = ggml.func('uintptr_t ggml_backend_load(const char *file)') as unknown as Call<number>
  const cuda =
    gpu === null ? null : loadCuda(cudaFiles(folder), askDriver(gpu), process.env, (file) => koffi.load(file))
  if (cuda !== null && cuda.file !== null && path.dirname(cuda.file) !== path.resolve(folder)) {
    // The library would take the file for GPUs of its own folder too.
    load(bestProcessorFile(folder))
    load(cuda.file)
  } else (ggml.func('void ggml_backend_load_all_from_path(const char *folder)') as unknown as Call<void>)(folder)
  return cuda
}

/** Each variant says how well it fits this processor; 0: not at all. */
function bestProcessorFile(folder: string): string {
  const files = readdirSync(folder).filter((name) => /^(lib)?ggml-cpu/.test(name))
  const scores = files.map((name) => {
    const variant = koffi.load(path.join(folder, name))
    const score = (variant.func('int ggml_backend_score()') as unknown as Call<number>)()
    variant.unload()
    return score
  })
  return path.join(folder, files[scores.indexOf(Math.max(...scores))] ?? '')
}

/** Without threads of its own a context makes and joins its threads anew in every decode. */
function threadAttacher(base: Loaded, ggml: Loaded, bind: Bind) {
  const registryOf = ggml.func('uintptr_t ggml_backend_reg_by_name(const char *name)') as unknown as Call<number>
  const addressOf = base.func(
    'uintptr_t ggml_backend_reg_get_proc_address(uintptr_t registry, const char *name)',
  ) as unknown as Call<number>
  const defaults = base.func('ggml_threadpool_params ggml_threadpool_params_default(int threads)') as unknown as Call<
    StructValue & { poll: number }
  >
  const attach = bind<void>('void llama_attach_threadpool(uintptr_t context, uintptr_t one, uintptr_t many)')
  const constructor = koffi.proto('uintptr_t ggml_threadpool_new(ggml_threadpool_params *params)')
  return (context: number, threads: number): void => {
    const address = addressOf(registryOf('CPU'), 'ggml_threadpool_new')
    if (address === 0) return
    const createPool = koffi.decode(BigInt(address), constructor) as unknown as Call<number>
    const pool = createPool(defaults(threads))
    if (pool !== 0) attach(context, pool, 0)
  }
}

function libraryFiles(folder: string): { base: string; ggml: string; llama: string } {
  const names = readdirSync(folder)
  const find = (stem: string): string => {
    const form = new RegExp(String.raw`^(lib)?${stem}(\.[a-z]+)?(\.v[\d.]+)?\.(so|dylib|dll)$`)
    const name = names.find((each) => form.test(each))
    if (name === undefined) throw new ServerError('UNAVAILABLE', `there is no library '${stem}' in '${folder}'`)
    return path.join(folder, name)
  }
  return { base: find('ggml-base'), ggml: find('ggml'), llama: find('llama') }
}

/** What llama.cpp's API 0.5 says without being asked for anything else. */
const knownDefaults: Readonly<Record<string, number | boolean>> = {
  n_ctx: 512,
  n_batch: 2048,
  n_ubatch: 512,
  n_seq_max: 1,
  flash_attn_type: -1,
  yarn_beta_fast: -1,
  type_k: 1,
  type_v: 1,
  embeddings: false,
  offload_kqv: true,
}

function requireKnownVersion(defaults: StructValue, file: string): void {
  const wrong = Object.entries(knownDefaults).filter(([name, value]) => defaults[name] !== value)
  if (wrong.length === 0) return
  const found = wrong.map(([name, value]) => `${name} ${String(value)}, found ${String(defaults[name])}`)
  throw new ServerError(
    'UNAVAILABLE',
    `'${file}' is another version of llama.cpp than the one that Galatea knows (API 0.5): expected ${found.join('; ')}; install @node-llama-cpp 3.22`,
  )
}

export const addressOf = (bytes: NodeJS.TypedArray): number => Number(koffi.address(bytes))

/** Memory of the library as numbers, without a copy. It is valid until the next call that computes. */
export const viewFloats = (address: number, count: number): Float32Array =>
  new Float32Array(koffi.view(BigInt(address), count * 4))

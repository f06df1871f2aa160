/// <reference lib="esnext.disposable" preserve="true" />
// The client for HTTP, in Node, browsers and everything else that has fetch.

import { ClientSequence, type SequenceOptions } from '../client-sequence.ts'
import { wireRequestOf, type CallOptions, type InferOptions, type Inputs } from '../infer-request.ts'
import type { InferResult } from '../infer-result.ts'
import type {
  ClientOptions,
  CudaSharedMemoryRegion,
  IndexEntry,
  InferenceClient,
  LoadOptions,
  LogSettings,
  ModelConfig,
  ModelMetadata,
  ModelOptions,
  ModelStatistics,
  ServerMetadata,
  SystemSharedMemoryRegion,
  TraceSettings,
  TraceSettingsUpdate,
  UnloadOptions,
} from '../inference-client.ts'
import { InferenceError } from '../inference-error.ts'
import type { ModelChange, RegisteredModel, RegistryPage, RegistrySearch } from '../model-registry.ts'
import { inferRule } from '../server-choice.ts'
import { camelCased, modelMetadataOf, statisticsOf, type WireMetadata } from '../wire-names.ts'
import { answerBytes } from './answer-bytes.ts'
import { base64Of } from './base64.ts'
import { errorOf, HttpTransport, type FetchFunction, type HttpExchange } from './http-transport.ts'
import { encodeInferBody, parseInferBody } from './infer-body.ts'
import { serverSentEvents } from './server-sent-events.ts'
import { parseWireJson, wireJsonText } from './wire-json.ts'

export type HttpClientOptions = ClientOptions & {
  /** In place of the global fetch: for certificates of your own, proxies, tests. */
  readonly fetch?: FetchFunction
  /** How tensors travel when a call does not say. Default `binary`. */
  readonly encoding?: 'binary' | 'json'
}

/** What generate sends and answers: inputs, outputs and parameters by name. */
export type GenerateFields = Readonly<Record<string, unknown>>

export const createHttpClient = (options: HttpClientOptions): HttpClient => new HttpClient(options)

export class HttpClient implements InferenceClient {
  readonly #options: HttpClientOptions
  readonly #transport: HttpTransport

  constructor(options: HttpClientOptions) {
    this.#options = options
    // Browsers insist that fetch is called on the global object.
    this.#transport = new HttpTransport(options.fetch ?? ((url, init) => fetch(url, init)), options)
  }

  isLive(options: CallOptions = {}): Promise<boolean> {
    return this.#claim('/v2/health/live', options)
  }

  isReady(options: CallOptions = {}): Promise<boolean> {
    return this.#claim('/v2/health/ready', options)
  }

  isModelReady(model: string, options: ModelOptions = {}): Promise<boolean> {
    return this.#claim(`${modelPath(model, options.version)}/ready`, options)
  }

  async serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    return (await this.#get('/v2', options)) as ServerMetadata
  }

  async modelMetadata(model: string, options: ModelOptions = {}): Promise<ModelMetadata> {
    const answer = await this.#get(modelPath(model, options.version), options)
    return understood(() => modelMetadataOf(answer as WireMetadata))
  }

  async modelConfig(model: string, options: ModelOptions = {}): Promise<ModelConfig> {
    return (await this.#get(`${modelPath(model, options.version)}/config`, options)) as ModelConfig
  }

  async statistics(model?: string, options: ModelOptions = {}): Promise<readonly ModelStatistics[]> {
    const path = model === undefined ? '/v2/models' : modelPath(model, options.version)
    const answer = await this.#get(`${path}/stats`, options)
    return understood(() => statisticsOf((answer as { model_stats: unknown[] }).model_stats))
  }

  async infer(model: string, inputs: Inputs, options: InferOptions = {}): Promise<InferResult> {
    const request = wireRequestOf(model, inputs, options)
    const encoding = options.encoding ?? this.#options.encoding ?? 'binary'
    const { bytes, headerLength } = encodeInferBody(request, encoding)
    const retryUnavailable = options.retryUnavailable ?? this.#options.retryUnavailable ?? false
    const exchange: HttpExchange = {
      method: 'POST',
      path: `${modelPath(model, options.version)}/infer`,
      rule: inferRule(retryUnavailable, options.sequence !== undefined, this.#transport.hasSeveral),
      body: bytes,
      headers: {
        'content-type': headerLength === null ? 'application/json' : 'application/octet-stream',
        ...(headerLength === null ? {} : { 'inference-header-content-length': String(headerLength) }),
      },
      ...(options.compression === undefined ? {} : { compression: options.compression }),
    }
    return this.#transport.exchange(exchange, options, async (response) => {
      if (!response.ok) throw await errorOf(response)
      const length = response.headers.get('inference-header-content-length')
      const isBinary = response.headers.get('content-type')?.startsWith('application/octet-stream') === true
      const answer = await this.#transport.bytesOf(response)
      return understood(() => parseInferBody(answer, length === null ? null : Number(length), isBinary))
    })
  }

  sequence(model: string, options?: SequenceOptions): ClientSequence {
    return new ClientSequence((...call) => this.infer(...call), model, options)
  }

  /** One answer of a model that takes and gives text, by the names of its inputs and outputs. */
  async generate(model: string, fields: GenerateFields, options: ModelOptions = {}): Promise<GenerateFields> {
    const path = `${modelPath(model, options.version)}/generate`
    const answer = (await this.#post(path, fields, options, 'once')) as GenerateFields
    // The server reports a model that answers more than once with status 200 and an error.
    throwIfError(answer)
    return answer
  }

  /** The answers as the model makes them. Ending the loop early ends the request. */
  async *generateStream(
    model: string,
    fields: GenerateFields,
    options: ModelOptions = {},
  ): AsyncGenerator<GenerateFields, void, undefined> {
    const { response, scope } = await this.#transport.open(
      {
        method: 'POST',
        path: `${modelPath(model, options.version)}/generate_stream`,
        rule: 'once',
        body: wireJsonText(fields),
        headers: { 'content-type': 'application/json' },
        compression: 'none',
      },
      options,
    )
    try {
      if (response.body === null) return
      for await (const event of serverSentEvents(response.body)) {
        const answer = understood(() => parseWireJson(event)) as GenerateFields
        throwIfError(answer)
        yield answer
      }
    } catch (reason) {
      // Browsers reject the read with the signal's own reason, Node with an error of its own.
      if (scope.signal.aborted || reason instanceof InferenceError) throw scope.errorFor(reason)
      throw new InferenceError('UNREACHABLE', `the stream broke off: ${String(reason)}`, { cause: reason })
    } finally {
      this.#transport.end(scope)
    }
  }

  async repositoryIndex(options: CallOptions & { readonly ready?: boolean } = {}): Promise<readonly IndexEntry[]> {
    const body = options.ready === undefined ? {} : { ready: options.ready }
    const answer = await this.#post('/v2/repository/index', body, options, 'idempotent')
    const entryOf = ({ name = '', version = '', state = '', reason = '' }: Partial<IndexEntry>): IndexEntry => {
      return { name, version, state, reason }
    }
    return understood(() => (answer as Partial<IndexEntry>[]).map(entryOf))
  }

  async loadModel(model: string, options: LoadOptions = {}): Promise<void> {
    const { config, files = {} } = options
    const parameters: Record<string, string> = {}
    if (config !== undefined) parameters['config'] = typeof config === 'string' ? config : JSON.stringify(config)
    for (const [path, bytes] of Object.entries(files)) parameters[`file:${path}`] = base64Of(bytes)
    const body = Object.keys(parameters).length === 0 ? {} : { parameters }
    await this.#post(`/v2/repository/models/${encodeURIComponent(model)}/load`, body, options, 'once')
  }

  async unloadModel(model: string, options: UnloadOptions = {}): Promise<void> {
    const { unloadDependents } = options
    const body = unloadDependents === undefined ? {} : { parameters: { unload_dependents: unloadDependents } }
    await this.#post(`/v2/repository/models/${encodeURIComponent(model)}/unload`, body, options, 'once')
  }

  /** What Galatea's registry knows of a model: owner, tags, metrics, content hashes. */
  async modelRegistry(model: string, options: CallOptions = {}): Promise<RegisteredModel> {
    return (await this.#get(`${modelPath(model, undefined)}/registry`, options)) as RegisteredModel
  }

  /** Models of Galatea's registry by tag, owner and text, a page at a time. */
  async searchRegistry(search: RegistrySearch = {}): Promise<RegistryPage> {
    return (await this.#get(registrySearchPath(search), search)) as RegistryPage
  }

  /** Who loaded and unloaded a model, newest first. */
  async modelHistory(
    model: string,
    options: CallOptions & { readonly limit?: number } = {},
  ): Promise<readonly ModelChange[]> {
    const query = options.limit === undefined ? '' : `?limit=${options.limit}`
    const answer = await this.#get(`${modelPath(model, undefined)}/registry/history${query}`, options)
    return understood(() => (answer as { readonly events: readonly ModelChange[] }).events)
  }

  async traceSettings(model?: string, options: CallOptions = {}): Promise<TraceSettings> {
    return (await this.#get(tracePath(model), options)) as TraceSettings
  }

  async updateTraceSettings(
    settings: TraceSettingsUpdate,
    model?: string,
    options: CallOptions = {},
  ): Promise<TraceSettings> {
    return (await this.#post(tracePath(model), settings, options, 'idempotent')) as TraceSettings
  }

  async logSettings(options: CallOptions = {}): Promise<LogSettings> {
    return (await this.#get('/v2/logging', options)) as LogSettings
  }

  async updateLogSettings(settings: LogSettings, options: CallOptions = {}): Promise<LogSettings> {
    return (await this.#post('/v2/logging', settings, options, 'idempotent')) as LogSettings
  }

  async systemSharedMemory(name?: string, options: CallOptions = {}): Promise<readonly SystemSharedMemoryRegion[]> {
    const regions = await this.#get(`${regionPath('system', name)}/status`, options)
    return camelCased(regions) as SystemSharedMemoryRegion[]
  }

  async registerSystemSharedMemory(
    region: Omit<SystemSharedMemoryRegion, 'offset'> & { readonly offset?: number },
    options: CallOptions = {},
  ): Promise<void> {
    const { name, key, offset = 0, byteSize } = region
    const path = `${regionPath('system', name)}/register`
    await this.#post(path, { key, offset, byte_size: byteSize }, options, 'once')
  }

  async unregisterSystemSharedMemory(name?: string, options: CallOptions = {}): Promise<void> {
    await this.#post(`${regionPath('system', name)}/unregister`, {}, options, 'idempotent')
  }

  async cudaSharedMemory(name?: string, options: CallOptions = {}): Promise<readonly CudaSharedMemoryRegion[]> {
    return camelCased(await this.#get(`${regionPath('cuda', name)}/status`, options)) as CudaSharedMemoryRegion[]
  }

  async registerCudaSharedMemory(
    region: CudaSharedMemoryRegion & { readonly rawHandle: Uint8Array },
    options: CallOptions = {},
  ): Promise<void> {
    const { name, rawHandle, deviceId, byteSize } = region
    const body = { raw_handle: { b64: base64Of(rawHandle) }, device_id: deviceId, byte_size: byteSize }
    await this.#post(`${regionPath('cuda', name)}/register`, body, options, 'once')
  }

  async unregisterCudaSharedMemory(name?: string, options: CallOptions = {}): Promise<void> {
    await this.#post(`${regionPath('cuda', name)}/unregister`, {}, options, 'idempotent')
  }

  async close(): Promise<void> {
    this.#transport.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** The status of the reply is the answer. Not tried again: "the server is not ready" is the answer. */
  async #claim(path: string, options: CallOptions): Promise<boolean> {
    try {
      return await this.#transport.exchange({ method: 'GET', path, rule: 'once' }, options, async (response) => {
        // Nothing is made of it, but a connection whose answer is read can serve the next call.
        await answerBytes(response, mostUnusedBytes)
        if (response.status === 403) throw new InferenceError('FORBIDDEN', 'this API is restricted', { status: 403 })
        return response.ok
      })
    } catch (reason) {
      if (reason instanceof InferenceError && reason.code === 'UNREACHABLE') return false
      throw reason
    }
  }

  #get(path: string, options: CallOptions): Promise<unknown> {
    const read = (response: Response): Promise<unknown> => this.#json(response, (text) => JSON.parse(text) as unknown)
    return this.#transport.exchange({ method: 'GET', path, rule: 'idempotent' }, options, read)
  }

  #post(path: string, body: object, options: CallOptions, rule: HttpExchange['rule']): Promise<unknown> {
    const headers = { 'content-type': 'application/json' }
    const exchange = { method: 'POST', path, rule, body: wireJsonText(body), headers, compression: 'none' } as const
    return this.#transport.exchange(exchange, options, (response) => this.#json(response, parseWireJson))
  }

  async #json(response: Response, parse: (text: string) => unknown): Promise<unknown> {
    if (!response.ok) throw await errorOf(response)
    const bytes = await this.#transport.bytesOf(response)
    return bytes.length === 0 ? null : understood(() => parse(new TextDecoder().decode(bytes)))
  }
}

/** Of an answer whose status is all that counts. */
const mostUnusedBytes = 64 * 1024

/** What a server says may have any form: a mistake of its is no TypeError of the caller. */
function understood<Result>(parse: () => Result): Result {
  try {
    return parse()
  } catch (reason) {
    throw InferenceError.from(reason)
  }
}

function throwIfError(answer: GenerateFields): void {
  const error = understood(() => (answer as { error?: unknown }).error)
  if (typeof error === 'string' && Object.keys(answer).length === 1) {
    throw new InferenceError('UNKNOWN', error, { status: 200 })
  }
}

const modelPath = (model: string, version: string | number | undefined): string =>
  `/v2/models/${encodeURIComponent(model)}${version === undefined || version === '' ? '' : `/versions/${encodeURIComponent(version)}`}`

const tracePath = (model: string | undefined): string =>
  `/v2${model === undefined ? '' : `/models/${encodeURIComponent(model)}`}/trace/setting`

const regionPath = (kind: 'system' | 'cuda', name: string | undefined): string =>
  `/v2/${kind}sharedmemory${name === undefined ? '' : `/region/${encodeURIComponent(name)}`}`

function registrySearchPath({ tags = [], owner, text, limit, after }: RegistrySearch): string {
  const query = new URLSearchParams(tags.map((tag) => ['tag', tag]))
  if (owner !== undefined) query.set('owner', owner)
  if (text !== undefined) query.set('q', text)
  if (limit !== undefined) query.set('limit', String(limit))
  if (after !== undefined) query.set('after', after)
  return query.size === 0 ? '/v2/registry' : `/v2/registry?${query.toString()}`
}

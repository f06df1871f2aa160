/// <reference lib="esnext.disposable" preserve="true" />
// The client for gRPC, in Node.

import { CallScope, type RetryRule } from '../call-scope.ts'
import { ClientSequence, type SequenceOptions } from '../client-sequence.ts'
import { wireRequestOf, type CallOptions, type Compression, type InferOptions, type Inputs } from '../infer-request.ts'
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
import { inferRule, ServerChoice } from '../server-choice.ts'
import { camelCased, modelMetadataOf, plainNumbers, statisticsOf, type WireMetadata } from '../wire-names.ts'
import type { TlsOptions } from '../node/tls-settings.ts'
import { GrpcChannel, type GrpcCall } from './grpc-channel.ts'
import { encodeInferRequest, inferResultOf } from './infer-message.ts'
import { InferStream, type StreamInferOptions } from './infer-stream.ts'
import { frameOf, messagesOf } from './message-frames.ts'
import { decodeMessage, encodeMessage, type MessageValue } from './json-messages.ts'

export type GrpcClientOptions = ClientOptions & {
  /** Certificates; an empty object is TLS with the system's authorities. A url that begins with https:// asks for it too. */
  readonly tls?: TlsOptions
  /** Ping the server this often, and give the connection up when it does not answer. Default: never. */
  readonly keepaliveMs?: number
}

type RpcName =
  | `Server${'Live' | 'Ready' | 'Metadata'}`
  | `Model${'Ready' | 'Metadata' | 'Config' | 'Statistics'}`
  | `Repository${'Index' | 'ModelLoad' | 'ModelUnload'}`
  | `${'System' | 'Cuda'}SharedMemory${'Status' | 'Register' | 'Unregister'}`
  | 'TraceSetting'
  | 'LogSettings'

const service = '/inference.GRPCInferenceService'

export const createGrpcClient = (options: GrpcClientOptions): GrpcClient => new GrpcClient(options)

export class GrpcClient implements InferenceClient {
  readonly #options: GrpcClientOptions
  readonly #channels: ServerChoice<GrpcChannel>
  readonly #maxMessageBytes: number

  constructor(options: GrpcClientOptions) {
    this.#options = options
    this.#maxMessageBytes = options.maxMessageBytes ?? 2 ** 31 - 1
    const channelTo = (url: string): GrpcChannel =>
      new GrpcChannel({
        origin: originOf(url, options),
        headers: options.headers ?? {},
        tls: options.tls ?? {},
        keepaliveMs: options.keepaliveMs ?? null,
      })
    this.#channels = new ServerChoice(options.url, channelTo)
  }

  isLive(options: CallOptions = {}): Promise<boolean> {
    return this.#claim('ServerLive', {}, 'live', options)
  }

  isReady(options: CallOptions = {}): Promise<boolean> {
    return this.#claim('ServerReady', {}, 'ready', options)
  }

  isModelReady(model: string, options: ModelOptions = {}): Promise<boolean> {
    return this.#claim('ModelReady', named(model, options), 'ready', options)
  }

  async serverMetadata(options: CallOptions = {}): Promise<ServerMetadata> {
    return (await this.#call('ServerMetadata', {}, options, 'idempotent')) as ServerMetadata
  }

  async modelMetadata(model: string, options: ModelOptions = {}): Promise<ModelMetadata> {
    const answer = await this.#call('ModelMetadata', named(model, options), options, 'idempotent')
    return modelMetadataOf(answer as WireMetadata)
  }

  async modelConfig(model: string, options: ModelOptions = {}): Promise<ModelConfig> {
    const { config } = await this.#call('ModelConfig', named(model, options), options, 'idempotent')
    return plainNumbers(config) as ModelConfig
  }

  async statistics(model = '', options: ModelOptions = {}): Promise<readonly ModelStatistics[]> {
    const answer = await this.#call('ModelStatistics', named(model, options), options, 'idempotent')
    return statisticsOf(answer['model_stats'] as unknown[])
  }

  async infer(model: string, inputs: Inputs, options: InferOptions = {}): Promise<InferResult> {
    const parts = encodeInferRequest(wireRequestOf(model, inputs, options))
    const isRetried = options.retryUnavailable ?? this.#options.retryUnavailable ?? false
    const compression = options.compression ?? this.#options.compression ?? 'none'
    const rule = inferRule(isRetried, options.sequence !== undefined, this.#channels.all.length > 1)
    const bytes = await this.#unary('ModelInfer', parts, options, rule, compression)
    return inferResultOf(decodeMessage('ModelInferResponse', bytes))
  }

  sequence(model: string, options?: SequenceOptions): ClientSequence {
    return new ClientSequence((...call) => this.infer(...call), model, options)
  }

  /** A stream of requests and answers. `timeoutMs` and `signal` are for the stream as a whole. */
  async openStream(options: CallOptions & { readonly compression?: Compression } = {}): Promise<InferStream> {
    const scope = new CallScope(options, options.timeoutMs)
    const compression = options.compression ?? this.#options.compression ?? 'none'
    const path = `${service}/ModelStreamInfer`
    try {
      const call = await scope.run('once', this.#retries, () =>
        this.#channels.ask((channel) => channel.open(path, options.headers ?? {}, scope, compression)),
      )
      call.stream.once('close', () => scope.end())
      return new InferStream(call, compression, this.#maxMessageBytes)
    } catch (reason) {
      scope.end()
      throw reason
    }
  }

  /** One request and all its answers: for decoupled models. Ending the loop early cancels the request. */
  async *inferStream(
    model: string,
    inputs: Inputs,
    options: CallOptions & StreamInferOptions = {},
  ): AsyncGenerator<InferResult, void, undefined> {
    const { signal, timeoutMs = this.#options.timeoutMs, headers, ...rest } = options
    const stream = await this.openStream({ signal, timeoutMs, headers })
    try {
      await stream.send(model, inputs, { ...rest, emptyFinalResponse: true })
      await stream.end()
      for await (const { result, error } of stream) {
        if (error !== null) throw error
        if (result.outputs.length > 0 || options.emptyFinalResponse === true) yield result
      }
    } finally {
      stream.cancel()
    }
  }

  async repositoryIndex(options: CallOptions & { readonly ready?: boolean } = {}): Promise<readonly IndexEntry[]> {
    const request = { ready: options.ready ?? false }
    const { models } = await this.#call('RepositoryIndex', request, options, 'idempotent')
    return models as IndexEntry[]
  }

  async loadModel(model: string, options: LoadOptions = {}): Promise<void> {
    const { config, files = {} } = options
    const parameters: Record<string, object> = {}
    if (config !== undefined) {
      parameters['config'] = { string_param: typeof config === 'string' ? config : JSON.stringify(config) }
    }
    for (const [path, bytes] of Object.entries(files)) parameters[`file:${path}`] = { bytes_param: bytes }
    await this.#call('RepositoryModelLoad', { model_name: model, parameters }, options, 'once')
  }

  async unloadModel(model: string, options: UnloadOptions = {}): Promise<void> {
    const { unloadDependents } = options
    const parameters = unloadDependents === undefined ? {} : { unload_dependents: { bool_param: unloadDependents } }
    await this.#call('RepositoryModelUnload', { model_name: model, parameters }, options, 'once')
  }

  traceSettings(model = '', options: CallOptions = {}): Promise<TraceSettings> {
    return this.updateTraceSettings({}, model, options)
  }

  async updateTraceSettings(
    settings: TraceSettingsUpdate,
    model = '',
    options: CallOptions = {},
  ): Promise<TraceSettings> {
    // No value at all clears a setting.
    const values = Object.entries(settings).map(([key, value]) => [
      key,
      { value: value === null ? [] : [value].flat() },
    ])
    const request = { settings: Object.fromEntries(values) as object, model_name: model }
    const answer = await this.#call('TraceSetting', request, options, 'idempotent')
    const found = answer['settings'] as Record<string, { value: string[] }>
    return Object.fromEntries(
      Object.entries(found).map(([key, { value }]) => [key, key === 'trace_level' ? value : (value[0] ?? '')]),
    )
  }

  logSettings(options: CallOptions = {}): Promise<LogSettings> {
    return this.updateLogSettings({}, options)
  }

  async updateLogSettings(settings: LogSettings, options: CallOptions = {}): Promise<LogSettings> {
    const values = Object.entries(settings).map(([key, value]) => {
      const field = { boolean: 'bool_param', number: 'uint32_param', string: 'string_param' } as const
      return [key, { [field[typeof value as keyof typeof field]]: value }]
    })
    const request = { settings: Object.fromEntries(values) as object }
    const answer = await this.#call('LogSettings', request, options, 'idempotent')
    const found = Object.entries(answer['settings'] as Record<string, Record<string, string | number | boolean>>)
    return Object.fromEntries(found.map(([key, value]) => [key, Object.values(value)[0] ?? '']))
  }

  async systemSharedMemory(name = '', options: CallOptions = {}): Promise<readonly SystemSharedMemoryRegion[]> {
    const { regions } = await this.#call('SystemSharedMemoryStatus', { name }, options, 'idempotent')
    return Object.values(regions as object).map(camelCased) as SystemSharedMemoryRegion[]
  }

  async registerSystemSharedMemory(
    region: Omit<SystemSharedMemoryRegion, 'offset'> & { readonly offset?: number },
    options: CallOptions = {},
  ): Promise<void> {
    const { name, key, offset = 0, byteSize } = region
    const request = { name, key, offset, byte_size: byteSize }
    await this.#call('SystemSharedMemoryRegister', request, options, 'once')
  }

  async unregisterSystemSharedMemory(name = '', options: CallOptions = {}): Promise<void> {
    await this.#call('SystemSharedMemoryUnregister', { name }, options, 'idempotent')
  }

  async cudaSharedMemory(name = '', options: CallOptions = {}): Promise<readonly CudaSharedMemoryRegion[]> {
    const { regions } = await this.#call('CudaSharedMemoryStatus', { name }, options, 'idempotent')
    return Object.values(regions as object).map(camelCased) as CudaSharedMemoryRegion[]
  }

  async registerCudaSharedMemory(
    region: CudaSharedMemoryRegion & { readonly rawHandle: Uint8Array },
    options: CallOptions = {},
  ): Promise<void> {
    const { name, rawHandle, deviceId, byteSize } = region
    const request = { name, raw_handle: rawHandle, device_id: deviceId, byte_size: byteSize }
    await this.#call('CudaSharedMemoryRegister', request, options, 'once')
  }

  async unregisterCudaSharedMemory(name = '', options: CallOptions = {}): Promise<void> {
    await this.#call('CudaSharedMemoryUnregister', { name }, options, 'idempotent')
  }

  async close(): Promise<void> {
    await Promise.all(this.#channels.all.map((channel) => channel.close()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  get #retries(): number {
    return this.#options.retries ?? this.#channels.retries
  }

  /** Not tried again: "the server is not ready" is the answer. */
  async #claim(rpc: RpcName, request: MessageValue, field: string, options: CallOptions): Promise<boolean> {
    try {
      return (await this.#call(rpc, request, options, 'once'))[field] === true
    } catch (reason) {
      const isNo =
        reason instanceof InferenceError &&
        (reason.code === 'UNREACHABLE' || reason.code === 'NOT_FOUND' || isServerExiting(reason))
      if (isNo) return false
      throw reason
    }
  }

  async #call(rpc: RpcName, request: MessageValue, options: CallOptions, rule: RetryRule): Promise<MessageValue> {
    const bytes = await this.#unary(rpc, encodeMessage(`${rpc}Request`, request), options, rule, 'none')
    return decodeMessage(`${rpc}Response`, bytes)
  }

  async #unary(
    rpc: string,
    parts: readonly Uint8Array[],
    options: CallOptions,
    rule: RetryRule,
    compression: Compression,
  ): Promise<Uint8Array> {
    const scope = new CallScope(options, this.#options.timeoutMs)
    try {
      const frame = await frameOf(parts, compression)
      const attempt = async (channel: GrpcChannel): Promise<Uint8Array> => {
        const call = await channel.open(`${service}/${rpc}`, options.headers ?? {}, scope, compression)
        call.stream.end(frame)
        return this.#answerOf(call)
      }
      return await scope.run(rule, this.#retries, () => this.#channels.ask(attempt))
    } finally {
      scope.end()
    }
  }

  /** The one message of a call, once its status says that it is good. */
  async #answerOf(call: GrpcCall): Promise<Uint8Array> {
    let answer: Uint8Array | null = null
    try {
      for await (const message of messagesOf(call.stream, call.encoding, this.#maxMessageBytes)) answer ??= message
    } catch (reason) {
      call.cancel()
      if (reason instanceof InferenceError && reason.code === 'PROTOCOL') throw reason
      throw call.error ?? reason
    }
    const { error } = call
    if (error !== null) throw error
    if (answer === null) throw new InferenceError('PROTOCOL', 'the call was answered without a message')
    return answer
  }
}

const named = (model: string, { version = '' }: ModelOptions): MessageValue => ({
  name: model,
  version: String(version),
})

/** A restricted protocol says UNAVAILABLE too, and that is no answer to "are you ready?". */
const isServerExiting = ({ code, message }: InferenceError): boolean =>
  code === 'UNAVAILABLE' && !message.includes('restricted')

/** `grpc://` and a bare address are cleartext unless `tls` is given; `grpcs://` and `https://` are TLS. */
function originOf(url: string, { tls }: GrpcClientOptions): string {
  const match = /^(?:(https?|grpcs?):\/\/)?([^/?#\s]+)\/?$/i.exec(url)
  const [, scheme = tls === undefined ? 'http' : 'https', authority = ''] = match ?? []
  if (authority === '') throw InferenceError.ofArgument(`'${url}' is not an address: expected host:port`)
  return `${/s$/i.test(scheme) ? 'https' : 'http'}://${authority}`
}

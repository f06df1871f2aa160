import type { RestrictedApis } from '../../access/shared-key-admission.ts'
import { ServerError } from '../../base/server-error.ts'
import type { InferLimits } from '../../protocol/request-limits.ts'
import type { HttpTransportOptions } from '../../transport/http1/http-transport-options.ts'

/** As KServe's own server reads the variables of its environment. */
export type EventOptions = {
  /** `CE_SOURCE`; '' names the model. */
  readonly source: string
  /** `CE_TYPE` */
  readonly type: string
  /** `CE_MERGE`: an answer keeps the other attributes of its request. */
  readonly isMerged: boolean
}

/** The flags `--http-…`: the options of the transport and of the port. */
export type HttpOptions = Omit<HttpTransportOptions, 'bodyLimitBytes'> & {
  /** `--http-max-input-size`: the most bytes of a body, as sent and after decompression. */
  readonly maxInputBytes: number
  /**
   * True: maxInputBytes bounds every body. False (`--triton-defaults`): as in Triton the uncompressed bytes of binary
   * tensors beside a JSON head are not counted; JSON text, JSON tensors, raw binary and decompressed bodies are.
   */
  readonly boundsBinaryBodies: boolean
  /** `--kserve-v1`: the paths below `/v1` are served. */
  readonly hasKserveV1: boolean
  /** `--kserve-v1-metrics`: `/metrics` of the HTTP port tells the times of KServe v1. */
  readonly hasKserveMetrics: boolean
  /** What CloudEvents that answer say of themselves. */
  readonly cloudEvents: EventOptions
  /** `--openai`: the OpenAI API is served below `/v1`. */
  readonly hasOpenAi: boolean
  /** Groups of calls of the OpenAI API that need a key, on every port that has them. */
  readonly openAiRestrictedApis: readonly RestrictedApis[]
  /** `--openai-max-request-bytes` */
  readonly maxOpenAiBytes: number
  /** `--lora-separator`: what stands between the name of a model and that of an adapter in OpenAI calls; '': nothing. */
  readonly loraSeparator: string
  /** `--console`: the pages `/console` and `/docs` are served, and browsers that ask for `/` are sent there. */
  readonly hasConsole: boolean
  /** `--predict-max-pixels`: the most pixels of an uploaded picture. */
  readonly maxPicturePixels: number
  /** `--http-header-forward-pattern`; '' forwards none. */
  readonly headerForwardPattern: string
  /** `--http-cors-origin`: the origins whose pages may call the server from a browser; `*` for all. */
  readonly corsOrigins: readonly string[]
  /** `--http-allowed-hosts`: names in `Host` beside those of loopback, without ports; `*` for all. */
  readonly allowedHosts: readonly string[]
  /** `--http-restricted-api` */
  readonly restrictedApis: readonly RestrictedApis[]
  readonly requestLimits: InferLimits
}

/** The largest size with which all code for buffers works. A body is one buffer. */
const largestBodyBytes = 2 ** 31 - 1

/** The most bytes of a body that the transport collects, for every kind of body. */
export function bodyLimitBytes(options: HttpOptions): number {
  return options.boundsBinaryBodies ? Math.min(options.maxInputBytes, largestBodyBytes) : largestBodyBytes
}

const positive = [
  'maxInputBytes',
  'headersTimeoutMs',
  'bodyIdleTimeoutMs',
  'writeIdleTimeoutMs',
  'keepAliveTimeoutMs',
  'maxHeaderBytes',
] as const

export function validateHttpOptions(options: HttpOptions): void {
  for (const name of positive) {
    if (options[name] > 0) continue
    throw new ServerError('INVALID_ARG', `HTTP option ${name} must be greater than 0, got ${options[name]}`)
  }
  if (!Number.isInteger(options.port) || options.port < 0 || options.port > 65535) {
    throw new ServerError('INVALID_ARG', `HTTP port must be between 0 and 65535, got ${options.port}`)
  }
  const { tls } = options
  if (tls === null) return
  if (tls.certificate === '' || tls.key === '') {
    throw new ServerError('INVALID_ARG', '--http-use-ssl needs --http-server-cert and --http-server-key')
  }
  if (tls.isMutual && tls.root === '') {
    throw new ServerError('INVALID_ARG', '--http-use-ssl-mutual needs --http-root-cert, who signs the clients')
  }
}

import type { ParameterValue } from '../../model/parameters.ts'
import { ForwardPattern } from '../../protocol/forward-pattern.ts'

/** Copies metadata whose name matches `--grpc-header-forward-pattern` into request parameters; the last value is used. */
export class MetadataForwarding {
  readonly #pattern: ForwardPattern

  constructor(pattern: string) {
    this.#pattern = new ForwardPattern('--grpc-header-forward-pattern', pattern)
  }

  /** HOT: once per request when forwarding is on. Throws for a reserved name. */
  forward(metadata: readonly string[], parameters: Map<string, ParameterValue>): void {
    for (let i = 0; i < metadata.length; i += 2) {
      const name = metadata[i] as string
      if (isTransports(name) || !this.#pattern.matches(name)) continue
      const value = metadata[i + 1] as string
      parameters.set(name, name.endsWith('-bin') ? Buffer.from(value, 'base64').toString('latin1') : value)
    }
  }
}

/** Headers of HTTP/2 and of gRPC itself are no metadata: Triton does not see them. */
const isTransports = (name: string): boolean =>
  name.startsWith(':') || name.startsWith('grpc-') || name === 'te' || name === 'content-type'

import type { ParameterValue } from '../../model/parameters.ts'
import { ForwardPattern } from '../../protocol/forward-pattern.ts'

/**
 * Copies request headers whose name matches `--http-header-forward-pattern` into request parameters. As in Triton names
 * keep the client's spelling and the last value is used.
 */
export class HeaderForwarding {
  readonly #pattern: ForwardPattern

  constructor(pattern: string) {
    this.#pattern = new ForwardPattern('--http-header-forward-pattern', pattern)
  }

  /** HOT: once per request when forwarding is on. Throws for a reserved name. */
  forward(headers: readonly string[], parameters: Map<string, ParameterValue>): void {
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string
      if (this.#pattern.matches(name)) parameters.set(name, utf8Of(headers[i + 1] as string))
    }
  }
}

const hasNonAscii = /[\u0080-\u00ff]/

/** Header values arrive with one character per byte. */
const utf8Of = (latin1: string): string =>
  hasNonAscii.test(latin1) ? Buffer.from(latin1, 'latin1').toString('utf8') : latin1

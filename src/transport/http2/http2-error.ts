import type { Http2ErrorCode } from './http2-format.ts'

/** What is wrong with the whole connection: its last words to the client. */
export class Http2Error extends Error {
  readonly code: Http2ErrorCode

  constructor(code: Http2ErrorCode, message: string) {
    super(message)
    this.code = code
  }
}

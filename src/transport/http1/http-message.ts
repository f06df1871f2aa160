// What the HTTP front end knows of HTTP: one request to look at and answer, and one answer. No node:http in here, so that
// the transport underneath can be exchanged and tests need no socket.

import { specimens } from '../../base/specimens.ts'
import type { PeerCertificate } from '../peer-certificate.ts'
import type { RequestMemory } from '../request-memory.ts'

export const jsonType = 'application/json'
export const plainType = 'text/plain'
export const binaryType = 'application/octet-stream'

export interface HttpRequest {
  readonly method: string
  /** As on the request line: not decoded, with its query, perhaps an absolute URI. */
  readonly target: string
  /** Name, value, name, value… in the client's order and spelling. */
  readonly headers: readonly string[]
  /** The whole body in one piece; empty when there was none. */
  readonly body: Buffer
  /** '' when unknown. Asking costs a system call. */
  readonly remoteAddress: string
  /** The certificate that the client showed; null for none. */
  peerCertificate?(): PeerCertificate | null
  /** Who calls, noted by the port when it admits the request. The transport keeps the note and does not look at it. */
  caller: unknown
  /** Counts what is held for the request beside its body. */
  readonly memory: RequestMemory
  /** For the log: a fault of the server itself came up while the request was handled. */
  noteFault?(reason: unknown): void
  /** Called once if the client goes away before it was answered. */
  onDisconnect: (() => void) | null
  /** Exactly once per request. Takes the response over: its `release` is called when the bytes are written or dropped. */
  respond(response: HttpResponse): void
  /** Instead of `respond`: an answer in pieces. The head has no parts; `onDisconnect` stays in force until the end. */
  stream(head: HttpResponse): ResponseStream
}

/** The body of an answer that is written while it is made. After a disconnect everything is accepted and dropped. */
export interface ResponseStream {
  /** Takes the piece over. False: the reader is behind, the writer should wait for `onDrain`. */
  write(piece: Uint8Array): boolean
  /** What has been written and not yet taken by the system, with what each piece costs beside its bytes. */
  readonly unreadBytes: number
  /** Called when the reader has caught up after a `write` that returned false. */
  onDrain: (() => void) | null
  end(): void
  /** Breaks the connection: the client sees that this was not all. */
  abort(): void
}

/** A reader is behind with this much unread. As much again may be on its way from a model that was asked to wait. */
export const behindAtPieces = 32
export const behindAtBytes = 512 * 1024
/** And has caught up below this share of it. */
export const caughtUpShare = 4

export const pieceOverheadBytes = 256

/** How many answers begin: the head of HTTP/1.1 and the first part. The transport fills in the bytes. */
export type Opening = { bytes: Buffer | null }

const noHeaders: readonly string[] = []
const noParts: readonly Uint8Array[] = []

export class HttpResponse {
  readonly status: number
  /** '' for an answer that does not say. */
  readonly contentType: string
  /** Beside Content-Type and Content-Length, which the transport writes itself. */
  readonly headers: readonly string[]
  readonly parts: readonly Uint8Array[]
  readonly bodyBytes: number
  /** Gives back the memory behind `parts`; null when it is ordinary memory. */
  readonly release: (() => void) | null
  /** True when the rest of the connection cannot be trusted or is not wanted. */
  readonly closesConnection: boolean
  /** True: many requests get this one object, so the transport keeps its bytes in `wire`. It has no `release`. */
  readonly isRepeated: boolean
  /** Head and body as a kept connection of HTTP/1.1 gets them; null before the first time. */
  wire: Buffer | null = null
  /** The same object in all answers that differ in later parts only; null: no other answer is known to begin like this. */
  readonly opening: Opening | null

  constructor(
    status: number,
    contentType: string,
    parts: readonly Uint8Array[] = noParts,
    options: {
      headers?: readonly string[]
      release?: (() => void) | null
      closesConnection?: boolean
      isRepeated?: boolean
      opening?: Opening | null
    } = {},
  ) {
    this.status = status
    this.contentType = contentType
    this.parts = parts
    this.headers = options.headers ?? noHeaders
    this.release = options.release ?? null
    this.closesConnection = options.closesConnection ?? false
    this.isRepeated = options.isRepeated ?? false
    this.opening = options.opening ?? null
    let bodyBytes = 0
    for (let i = 0; i < parts.length; i++) bodyBytes += (parts[i] as Uint8Array).length
    this.bodyBytes = bodyBytes
  }
}

/** Triton's library says `Not Allowed` for 405; everything else is what everybody says. */
const reasonPhrases: Readonly<Record<number, string>> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  302: 'Found',
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Not Allowed',
  408: 'Request Timeout',
  409: 'Conflict',
  413: 'Payload Too Large',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
  507: 'Insufficient Storage',
}

export const reasonOf = (status: number): string => reasonPhrases[status] ?? 'Unknown'

export const isBlank = (c: number): boolean => c === 0x20 || c === 0x09

/** Blanks behind a value do not belong to it. They are kept for models that get the headers of clients: Triton's get the blanks, too. */
export function fieldValue(raw: string): string {
  let end = raw.length
  while (end > 0 && isBlank(raw.charCodeAt(end - 1))) end--
  return end === raw.length ? raw : raw.slice(0, end)
}

/** The first header of that name (given in lower case), or null. */
export function headerOf(headers: readonly string[], lowerCaseName: string): string | null {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string
    // The length tells nearly all names apart without making a lower-case copy of each.
    if (name.length === lowerCaseName.length && (name === lowerCaseName || name.toLowerCase() === lowerCaseName)) {
      return fieldValue(headers[i + 1] as string)
    }
  }
  return null
}

specimens.add(() => new HttpResponse(200, plainType))

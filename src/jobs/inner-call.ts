// A call of the server's own HTTP API from inside: no socket, the same routes, the same answers.

import type { Caller } from '../access/caller.ts'
import type { Clock } from '../base/clock.ts'
import { HttpCallFacts } from '../ports/http/http-call-facts.ts'
import type { PortRequest } from '../ports/http/port-request.ts'
import type { RouteMatch } from '../ports/http/router.ts'
import { jsonType, type HttpResponse, type ResponseStream } from '../transport/http1/http-message.ts'
import { RequestMemory } from '../transport/request-memory.ts'
import type { ConnectionMemory } from '../transport/client-memory.ts'
import type { LineAnswer, LineCall } from './job-line.ts'

export type InnerRoutes = { find(target: string): RouteMatch | null }

type InnerParts = {
  readonly clock: Clock
  readonly routes: InnerRoutes
  readonly memory: ConnectionMemory
}

/**
 * The answer of a route to a call. `answered` is called in the same turn of the event loop in which the route answers. The call counts
 * against the limits of its caller, as a call over a socket does.
 */
export async function callInside(
  { clock, routes, memory }: InnerParts,
  { target, body }: LineCall,
  caller: Caller,
  signal: AbortSignal,
  answered: () => void,
): Promise<LineAnswer> {
  const match = routes.find(target)
  if (match === null) return { status: 404, body: Buffer.from(`{"error":"there is no path '${target}'"}`) }
  if (caller.account !== null) {
    const asked = new InnerRequest(target, body, caller, new RequestMemory(memory), () => undefined)
    const refusal = await caller.account.admit(new HttpCallFacts('http', match, asked), clock.nowNs())
    if (refusal !== null) return { status: 429, body: Buffer.from(JSON.stringify({ error: refusal.message })) }
  }
  return new Promise((resolve) => {
    const request = new InnerRequest(target, body, caller, new RequestMemory(memory), (answer) => {
      signal.removeEventListener('abort', leave)
      answered()
      resolve(answer)
    })
    const leave = (): void => request.leave()
    signal.addEventListener('abort', leave, { once: true })
    match.route.handle(request, match.modelName, match.modelVersion, caller)
  })
}

const left: LineAnswer = { status: 499, body: Buffer.from('{"error":"the job was stopped"}') }

class InnerRequest implements PortRequest {
  readonly method = 'POST'
  readonly target: string
  readonly headers: readonly string[]
  readonly body: Buffer
  readonly remoteAddress = ''
  caller: unknown
  readonly memory: RequestMemory
  onDisconnect: (() => void) | null = null
  #answered: ((answer: LineAnswer) => void) | null

  constructor(
    target: string,
    body: Buffer,
    caller: Caller,
    memory: RequestMemory,
    answered: (answer: LineAnswer) => void,
  ) {
    this.target = target
    this.body = body
    this.caller = caller
    this.memory = memory
    this.#answered = answered
    this.headers = ['Content-Type', jsonType, 'Content-Length', String(body.length)]
  }

  leave(): void {
    if (this.#answered === null) return
    const { onDisconnect } = this
    this.#end(left)
    onDisconnect?.()
  }

  respond({ status, contentType, parts, release }: HttpResponse): void {
    const body = Buffer.concat(parts)
    release?.()
    this.#end({ status, body, isJson: contentType === jsonType })
  }

  /** An answer in pieces is collected: the bound of the line's answer is the bound of what a model may give at once. */
  stream({ status }: HttpResponse): ResponseStream {
    const pieces: Uint8Array[] = []
    const end = (): void => this.#end({ status, body: Buffer.concat(pieces) })
    return {
      write: (piece) => pieces.push(Buffer.from(piece)) > 0,
      unreadBytes: 0,
      onDrain: null,
      end,
      abort: () => this.#end({ status: 500, body: Buffer.from('{"error":"the answer ended in the middle"}') }),
    }
  }

  #end(answer: LineAnswer): void {
    const answered = this.#answered
    this.#answered = null
    this.onDisconnect = null
    this.memory.end?.()
    answered?.(answer)
  }
}

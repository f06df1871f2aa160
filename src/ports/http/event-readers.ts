import { ServerError } from '../../base/server-error.ts'
import { HttpResponse, type HttpRequest, type ResponseStream } from '../../transport/http1/http-message.ts'

/** One connection each. */
const mostReaders = 64
/** A reader that is further behind than this gets no further event until it has read. */
const mostUnreadBytes = 512 * 1024

/** The clients that read server-sent events now. All feeds of a server share them. */
export class EventReaders {
  readonly #open = new Set<EventReader>()
  #isClosed = false

  /** Throws UNAVAILABLE. `onEnd` is called once, when the client is gone or the server ends. */
  open(request: HttpRequest, onEnd: () => void): EventReader {
    if (this.#isClosed) throw ServerError.withoutStack('UNAVAILABLE', 'Server exiting')
    if (this.#open.size >= mostReaders) {
      const text = `${mostReaders} clients read the feeds of this server, which is the most: try later`
      throw ServerError.withoutStack('UNAVAILABLE', text)
    }
    const reader = new EventReader(request, () => {
      this.#open.delete(reader)
      onEnd()
    })
    this.#open.add(reader)
    return reader
  }

  /** Ends every feed: the server is about to end, and a feed has no end of its own. */
  close(): void {
    this.#isClosed = true
    for (const reader of this.#open) reader.end()
  }
}

/** One feed of server-sent events. */
class EventReader {
  readonly #stream: ResponseStream
  readonly #onEnd: () => void
  #isOver = false

  constructor(request: HttpRequest, onEnd: () => void) {
    this.#onEnd = onEnd
    const headers = ['Cache-Control', 'no-cache', 'X-Accel-Buffering', 'no']
    this.#stream = request.stream(new HttpResponse(200, 'text/event-stream', [], { headers }))
    request.onDisconnect = () => this.#finish()
  }

  /** False: an event lies unread, and the next one should say what is new then. */
  get isCaughtUp(): boolean {
    return this.#stream.unreadBytes === 0
  }

  /** False: the reader is too far behind, and the event was not sent. */
  send(event: string, data: unknown): boolean {
    if (this.#isOver || this.#stream.unreadBytes > mostUnreadBytes) return false
    this.#stream.write(Buffer.from(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`))
    return true
  }

  end(): void {
    if (this.#isOver) return
    this.#finish()
    this.#stream.end()
  }

  #finish(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onEnd()
  }
}

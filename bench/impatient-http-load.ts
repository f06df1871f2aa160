// Clients that give up: requests at a given rate, each on a connection of its own that is closed when no answer has come in
// time. Connections that got their answer are used again. In this process.

import { connect, type Socket } from 'node:net'

export type ImpatientResult = {
  readonly seconds: number
  readonly sent: number
  /** Answered with 200 in time. */
  readonly good: number
  readonly refused: number
  readonly gaveUp: number
  readonly goodMs: readonly number[]
  readonly refusedMs: readonly number[]
  /** Good answers in each tenth of a second. */
  readonly goodByTenth: readonly number[]
}

type Counts = { -readonly [Key in keyof ImpatientResult]: ImpatientResult[Key] } & {
  goodMs: number[]
  refusedMs: number[]
  goodByTenth: number[]
}

export class ImpatientHttpLoad implements Disposable {
  readonly #port: number
  readonly #request: Buffer
  readonly #patienceMs: number
  readonly #idle: Socket[] = []
  readonly #open = new Set<Socket>()
  #counts: Counts = emptyCounts()
  #startedMs = 0

  constructor(port: number, request: Buffer, patienceMs: number) {
    this.#port = port
    this.#request = request
    this.#patienceMs = patienceMs
  }

  /** At random times, as many per second as `rate` says for the seconds since the beginning. */
  async run(rate: (seconds: number) => number, seconds: number): Promise<ImpatientResult> {
    this.#counts = emptyCounts()
    this.#startedMs = performance.now()
    const endMs = this.#startedMs + seconds * 1000
    let nextMs = this.#startedMs
    for (let nowMs = this.#startedMs; nowMs < endMs; nowMs = performance.now()) {
      for (
        ;
        nextMs <= nowMs;
        nextMs -= (Math.log(1 - Math.random()) * 1000) / rate((nextMs - this.#startedMs) / 1000)
      ) {
        this.#send()
      }
      await new Promise((resolve) => setTimeout(resolve, 1))
    }
    const counts = { ...this.#counts, seconds: (performance.now() - this.#startedMs) / 1000 }
    await new Promise((resolve) => setTimeout(resolve, this.#patienceMs + 50))
    return counts
  }

  #send(): void {
    const counts = this.#counts
    const socket = this.#idle.pop() ?? this.#connect()
    const sentMs = performance.now()
    let text = ''
    counts.sent++
    const timer = setTimeout(() => {
      counts.gaveUp++
      socket.destroy()
    }, this.#patienceMs)
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (!isWhole(text)) return
      clearTimeout(timer)
      socket.removeAllListeners('data')
      this.#idle.push(socket)
      const elapsedMs = performance.now() - sentMs
      if (!text.startsWith('HTTP/1.1 200')) {
        counts.refused++
        counts.refusedMs.push(elapsedMs)
      } else if (elapsedMs <= this.#patienceMs) {
        counts.good++
        counts.goodMs.push(elapsedMs)
        const tenth = Math.floor((performance.now() - this.#startedMs) / 100)
        while (counts.goodByTenth.length <= tenth) counts.goodByTenth.push(0)
        counts.goodByTenth[tenth] = (counts.goodByTenth[tenth] ?? 0) + 1
      }
    })
    socket.write(this.#request)
  }

  #connect(): Socket {
    const socket = connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    this.#open.add(socket)
    socket.on('error', () => socket.destroy())
    socket.on('close', () => {
      this.#open.delete(socket)
      const at = this.#idle.indexOf(socket)
      if (at >= 0) this.#idle.splice(at, 1)
    })
    return socket
  }

  [Symbol.dispose](): void {
    for (const socket of this.#open) socket.destroy()
  }
}

function emptyCounts(): Counts {
  return { seconds: 0, sent: 0, good: 0, refused: 0, gaveUp: 0, goodMs: [], refusedMs: [], goodByTenth: [] }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = Number(/^content-length: *(\d+)/im.exec(text.slice(0, end))?.[1] ?? 0)
  return text.length >= end + 4 + length
}

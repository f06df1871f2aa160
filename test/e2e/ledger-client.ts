// A steady stream of requests, each with an id, and a book in which every one of them has exactly one outcome.

import { Agent, request } from 'node:http'

export type Outcome = {
  /** 0: the connection broke. */
  readonly status: number
  readonly id: string
  /** Of an answer: the version that the server names, and the one that the model itself answers with. */
  readonly version: string
  readonly answered: string
  readonly error: string
}

export type Entry = {
  readonly id: string
  readonly model: string
  wasAfterEnd: boolean
  outcome: Outcome | null
}

const everyMs = 10
const perTick = 4

export class LedgerClient {
  readonly entries: Entry[] = []
  /** Outcomes of requests that had one already. */
  doubleCount = 0
  readonly #url: URL
  readonly #models: readonly string[]
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 48 })
  #timer: NodeJS.Timeout | null = null
  #openCount = 0
  #onIdle: (() => void) | null = null
  #isEnding = false

  constructor(url: string, models: readonly string[]) {
    this.#url = new URL(url)
    this.#models = models
  }

  start(): void {
    this.#timer = setInterval(() => {
      for (let i = 0; i < perTick; i++) {
        const model = this.#models[this.entries.length % this.#models.length] as string
        void this.send(model, 1)
      }
    }, everyMs)
  }

  /** What is sent from now on may find nobody, and so may what the server has perhaps not read yet. */
  serverEnds(): void {
    this.#isEnding = true
    for (const entry of this.entries) if (entry.outcome === null) entry.wasAfterEnd = true
  }

  /** Stops the stream; resolves when everything sent has its outcome. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer)
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve
      if (this.#openCount === 0) resolve()
    })
    this.#onIdle = null
  }

  /** For a test that has failed: nothing of it goes on. */
  abandon(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#agent.destroy()
  }

  closeConnections(): void {
    this.#agent.destroy()
  }

  send(model: string, value: number): Promise<Outcome> {
    const id = String(this.entries.length)
    const entry: Entry = { id, model, wasAfterEnd: this.#isEnding, outcome: null }
    this.entries.push(entry)
    this.#openCount++
    return new Promise((resolve) => {
      const settle = (outcome: Outcome): void => {
        if (entry.outcome !== null) this.doubleCount++
        else this.#openCount--
        entry.outcome = outcome
        resolve(outcome)
        if (this.#openCount === 0) this.#onIdle?.()
      }
      const body = JSON.stringify({ id, inputs: [{ name: 'IN', shape: [1], datatype: 'INT32', data: [value] }] })
      const { hostname, port } = this.#url
      const path = `/v2/models/${model}/infer`
      const call = request({ hostname, port, path, method: 'POST', agent: this.#agent }, (response) => {
        let text = ''
        response.on('data', (chunk: Buffer) => (text += chunk.toString()))
        response.on('end', () => settle(outcomeOf(response.statusCode ?? 0, text)))
        response.on('error', (reason) => settle(broken(reason)))
      })
      call.on('error', (reason) => settle(broken(reason)))
      call.end(body)
    })
  }
}

const broken = (reason: Error): Outcome => ({ status: 0, id: '', version: '', answered: '', error: reason.message })

function outcomeOf(status: number, text: string): Outcome {
  const answer = JSON.parse(text) as {
    id?: string
    model_version?: string
    error?: string
    outputs?: { data: number[] }[]
  }
  return {
    status,
    id: answer.id ?? '',
    version: answer.model_version ?? '',
    answered: String(answer.outputs?.[0]?.data[0] ?? ''),
    error: answer.error ?? '',
  }
}

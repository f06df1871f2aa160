// Lines from a Redis stream and answers to one. A consumer group keeps what was given out and not marked yet.

import type { RedisAddress } from '../base/redis-address.ts'
import { connectRedis, type RedisClient, type RedisModule } from '../base/redis-client.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import type { JobInput, JobItem, JobOutput } from './job-channel.ts'

const connectMs = 5000
/** One read waits so long for messages: a job that is stopped ends within this time. */
const blockMs = 500
/** Messages that another consumer took and did not mark for so long are taken over. */
const claimIdleMs = 60_000
const claimEveryMs = 10_000
const deadSuffix = ':dead'
/** Messages of one read: their lengths are not known before. */
const mostRead = 64
/** A read of more bytes is followed by smaller ones. */
const mostReadBytes = 16 * 1024 * 1024

type GroupFacts = { readonly name: Buffer; readonly pending: number; readonly lag: number | null }
export type Entry = readonly [id: Buffer, fields: readonly Buffer[]]

/** Opens a connection, and refuses with the reason when it does not stand in time. */
async function openClient(redis: RedisModule, address: RedisAddress): Promise<RedisClient> {
  let report: (reason: unknown) => void = () => undefined
  const client = await new Promise<RedisClient>((resolve, reject) => {
    const opened = connectRedis(redis, address, connectMs, { onAway: (reason) => report(reason), onBack: () => resolve(opened) }) // prettier-ignore
    report = (reason) => {
      report = () => undefined
      opened.destroy()
      reject(new ServerError('UNAVAILABLE', `Redis at ${address.host}:${address.port} cannot be used: ${messageOf(reason)}`)) // prettier-ignore
    }
  })
  report = () => undefined
  return client
}

type InputNames = {
  readonly name: string
  readonly group: string
  /** The same after a restart. */
  readonly consumer: string
  readonly nowMs: () => number
}

export class RedisInput implements JobInput {
  readonly #reader: RedisClient
  readonly #writer: RedisClient
  readonly #stream: string
  readonly #group: string
  readonly #consumer: string
  readonly #nowMs: () => number
  /** This consumer's own messages of an earlier run come first. */
  #ownFrom: string | null = '0'
  #claimedMs = -Infinity
  readonly #size = new ReadSize()

  private constructor(reader: RedisClient, writer: RedisClient, { name, group, consumer, nowMs }: InputNames) {
    this.#reader = reader
    this.#writer = writer
    this.#stream = name
    this.#group = group
    this.#consumer = consumer
    this.#nowMs = nowMs
  }

  static async open(redis: RedisModule, address: RedisAddress, names: InputNames): Promise<RedisInput> {
    const { name, group } = names
    const reader = await openClient(redis, address)
    const writer = await openClient(redis, address).catch((reason: unknown) => {
      reader.destroy()
      throw reason
    })
    const input = new RedisInput(reader, writer, names)
    try {
      await writer.sendCommand(['XGROUP', 'CREATE', name, group, '0', 'MKSTREAM'])
    } catch (reason) {
      if (!messageOf(reason).startsWith('BUSYGROUP')) {
        await input.close()
        throw ServerError.from(reason, `the stream '${name}' cannot be read: `)
      }
    }
    return input
  }

  async next(most: number): Promise<JobItem[]> {
    if (this.#ownFrom !== null) return this.#nextOwn(most)
    const nowMs = this.#nowMs()
    if (nowMs - this.#claimedMs >= claimEveryMs) {
      this.#claimedMs = nowMs
      const claimed = await this.#claim(most)
      if (claimed.length > 0) return claimed
    }
    return (await this.#read(most, '>', String(blockMs))).map((entry) => itemOf(entry, 0))
  }

  async #nextOwn(most: number): Promise<JobItem[]> {
    const entries = await this.#read(most, this.#ownFrom ?? '0', null)
    this.#ownFrom = entries.at(-1)?.[0].toString() ?? null
    return this.#withAttempts(entries)
  }

  async #read(most: number, from: string, block: string | null): Promise<Entry[]> {
    const blocking = block === null ? [] : ['BLOCK', block]
    const answer = await this.#reader.sendCommand<Readonly<Record<string, Entry[]>> | null>([
      'XREADGROUP',
      'GROUP',
      this.#group,
      this.#consumer,
      'COUNT',
      String(this.#size.of(most)),
      ...blocking,
      'STREAMS',
      this.#stream,
      from,
    ])
    const entries = answer === null ? [] : (Object.values(answer)[0] ?? [])
    this.#size.after(entries)
    return entries
  }

  async #claim(most: number): Promise<JobItem[]> {
    const [, entries] = await this.#writer.sendCommand<[Buffer, Entry[]]>([
      'XAUTOCLAIM',
      this.#stream,
      this.#group,
      this.#consumer,
      String(claimIdleMs),
      '0',
      'COUNT',
      String(this.#size.of(most)),
    ])
    this.#size.after(entries)
    return this.#withAttempts(entries)
  }

  /** A message that was removed from the stream has no fields, and nothing is left to do for it. */
  async #withAttempts(entries: readonly Entry[]): Promise<JobItem[]> {
    const items: JobItem[] = []
    for (const entry of entries) {
      if (!Array.isArray(entry[1])) {
        await this.#writer.sendCommand(['XACK', this.#stream, this.#group, entry[0].toString()])
        continue
      }
      const id = entry[0].toString()
      const pending = await this.#writer.sendCommand<[unknown, unknown, unknown, number][]>(['XPENDING', this.#stream, this.#group, id, id, '1']) // prettier-ignore
      items.push(itemOf(entry, Math.max(0, (pending[0]?.[3] ?? 1) - 1)))
    }
    return items
  }

  async done(items: readonly JobItem[]): Promise<void> {
    if (items.length > 0) await this.#writer.sendCommand(['XACK', this.#stream, this.#group, ...items.map(({ mark }) => mark as string)]) // prettier-ignore
  }

  async putAside({ line, mark }: JobItem, reason: string): Promise<boolean> {
    const fields = ['body', line, 'error', reason.slice(0, 1000), 'message', mark as string]
    await this.#writer.sendCommand(['XADD', `${this.#stream}${deadSuffix}`, '*', ...fields])
    return true
  }

  async left(): Promise<number | null> {
    const groups = await this.#writer.sendCommand<GroupFacts[]>(['XINFO', 'GROUPS', this.#stream])
    const group = groups.find(({ name }) => name.toString() === this.#group)
    return typeof group?.lag === 'number' ? group.lag + group.pending : null
  }

  position(): null {
    return null
  }

  close(): Promise<void> {
    this.#reader.destroy()
    this.#writer.destroy()
    return Promise.resolve()
  }
}

/** How many messages are asked for: twice as many as last time, while they are small. */
export class ReadSize {
  #most = 1

  of(wanted: number): number {
    return Math.min(wanted, this.#most)
  }

  after(entries: readonly Entry[]): void {
    if (entries.length === 0) return
    let bytes = 0
    // A message that was removed from the stream has no fields.
    for (const [, fields] of entries) if (Array.isArray(fields)) for (const field of fields) bytes += field.length
    const fitting = Math.floor(mostReadBytes / Math.max(1, bytes / entries.length))
    this.#most = Math.max(1, Math.min(this.#most * 2, fitting, mostRead))
  }
}

/** The field `body`, or the only field that there is. */
function itemOf([id, fields]: Entry, earlierAttempts: number): JobItem {
  const at = fields.findIndex((name, i) => i % 2 === 0 && name.toString() === 'body')
  const line = fields[at < 0 ? 1 : at + 1] ?? Buffer.alloc(0)
  return { line, at: id.toString(), earlierAttempts, mark: id.toString() }
}

export class RedisOutput implements JobOutput {
  readonly #client: RedisClient
  readonly #stream: string
  readonly writtenBytes = 0

  private constructor(client: RedisClient, stream: string) {
    this.#client = client
    this.#stream = stream
  }

  static async open(redis: RedisModule, address: RedisAddress, stream: string): Promise<RedisOutput> {
    return new RedisOutput(await openClient(redis, address), stream)
  }

  async write(lines: readonly string[]): Promise<void> {
    await Promise.all(
      lines.map((line) => this.#client.sendCommand(['XADD', this.#stream, '*', 'body', line.trimEnd()])),
    )
  }

  close(): Promise<void> {
    this.#client.destroy()
    return Promise.resolve()
  }
}

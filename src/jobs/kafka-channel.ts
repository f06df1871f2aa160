// Lines from a topic of Kafka and answers to one. Offsets are committed after the answers were acknowledged.

import type { Consumer, EachBatchPayload, Kafka, Producer } from 'kafkajs'
import type { Clock } from '../base/clock.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { Arrivals } from './arrivals.ts'
import type { JobInput, JobItem, JobOutput } from './job-channel.ts'

/** What is used of the package `kafkajs`. */
export type Kafkajs = { readonly Kafka: typeof Kafka; readonly logLevel: { readonly NOTHING: number } }

const connectMs = 5000
const deadSuffix = '.dead'
/** So many messages of a batch wait for their turn before the next batch is fetched. */
const mostArrived = 1000

export function openKafka({ Kafka: Client, logLevel }: Kafkajs, brokers: readonly string[]): Kafka {
  return new Client({ clientId: 'galatea', brokers: [...brokers], connectionTimeout: connectMs, logLevel: logLevel.NOTHING }) // prettier-ignore
}

const away = (reason: unknown): ServerError => new ServerError('UNAVAILABLE', `Kafka cannot be used: ${messageOf(reason)}`) // prettier-ignore

type Mark = { readonly partition: number; readonly offset: string }

/** After this time without a word the messages of a server that was killed go to the others; Kafka's own limits are 6 s to 5 min. */
const sessionMs = 10_000

export class KafkaInput implements JobInput {
  readonly #kafka: Kafka
  readonly #consumer: Consumer
  readonly #producer: Producer
  readonly #topic: string
  readonly #group: string
  readonly #arrived: Arrivals<JobItem>
  #taken: (() => void)[] = []
  #crash: Error | null = null
  #isClosed = false

  private constructor(kafka: Kafka, clock: Clock, topic: string, group: string) {
    this.#kafka = kafka
    this.#arrived = new Arrivals(clock)
    this.#topic = topic
    this.#group = group
    this.#consumer = kafka.consumer({ groupId: group, sessionTimeout: sessionMs })
    this.#producer = kafka.producer()
    this.#consumer.on('consumer.crash', ({ payload }) => (this.#crash = payload.error))
  }

  static async open(kafka: Kafka, clock: Clock, topic: string, group: string): Promise<KafkaInput> {
    const input = new KafkaInput(kafka, clock, topic, group)
    try {
      await input.#producer.connect()
      await input.#consumer.connect()
      await input.#consumer.subscribe({ topic, fromBeginning: true })
      await input.#consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: (batch) => input.#take(batch) }) // prettier-ignore
      return input
    } catch (reason) {
      await input.close()
      throw away(reason)
    }
  }

  async #take(given: EachBatchPayload): Promise<void> {
    const { batch } = given
    for (const { offset, value } of batch.messages) {
      if (!given.isRunning() || given.isStale() || this.#isClosed) return
      const mark: Mark = { partition: batch.partition, offset }
      this.#arrived.push({
        line: value ?? Buffer.alloc(0),
        at: `${batch.partition}:${offset}`,
        earlierAttempts: 0,
        mark,
      })
      given.resolveOffset(offset)
      while (this.#arrived.count >= mostArrived && given.isRunning() && !this.#isClosed) {
        await new Promise<void>((resolve) => this.#taken.push(resolve))
        await given.heartbeat()
      }
    }
  }

  async next(most: number): Promise<JobItem[]> {
    this.#check()
    const items = await this.#arrived.take(most)
    for (const wake of this.#taken.splice(0)) wake()
    return items
  }

  #check(): void {
    if (this.#crash !== null) throw away(this.#crash)
  }

  async done(items: readonly JobItem[]): Promise<void> {
    const last = new Map<number, bigint>()
    for (const { mark } of items) last.set((mark as Mark).partition, BigInt((mark as Mark).offset) + 1n)
    const offsets = [...last].map(([partition, offset]) => ({ topic: this.#topic, partition, offset: String(offset) }))
    if (offsets.length > 0) await this.#consumer.commitOffsets(offsets).catch((reason: unknown) => { throw away(reason) }) // prettier-ignore
  }

  async putAside({ line }: JobItem, reason: string): Promise<boolean> {
    const message = { value: line, headers: { 'x-galatea-error': reason.slice(0, 1000) } }
    await this.#producer.send({ topic: `${this.#topic}${deadSuffix}`, messages: [message] }).catch((cause: unknown) => { throw away(cause) }) // prettier-ignore
    return true
  }

  async left(): Promise<number> {
    const admin = this.#kafka.admin()
    await admin.connect()
    try {
      const [ends, groups] = [await admin.fetchTopicOffsets(this.#topic), await admin.fetchOffsets({ groupId: this.#group, topics: [this.#topic] })] // prettier-ignore
      const at = new Map(groups[0]?.partitions.map(({ partition, offset }) => [partition, Math.max(0, Number(offset))]))
      return ends.reduce((sum, { partition, high }) => sum + Number(high) - (at.get(partition) ?? 0), 0)
    } finally {
      await admin.disconnect()
    }
  }

  position(): null {
    return null
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#arrived.wake()
    for (const wake of this.#taken.splice(0)) wake()
    await Promise.allSettled([this.#consumer.disconnect(), this.#producer.disconnect()])
  }
}

export class KafkaOutput implements JobOutput {
  readonly #producer: Producer
  readonly #topic: string
  readonly writtenBytes = 0

  private constructor(producer: Producer, topic: string) {
    this.#producer = producer
    this.#topic = topic
  }

  static async open(kafka: Kafka, topic: string): Promise<KafkaOutput> {
    const producer = kafka.producer({ idempotent: false })
    await producer.connect().catch((reason: unknown) => { throw away(reason) }) // prettier-ignore
    return new KafkaOutput(producer, topic)
  }

  async write(lines: readonly string[]): Promise<void> {
    const messages = lines.map((line) => ({ value: line.trimEnd() }))
    await this.#producer.send({ topic: this.#topic, messages, acks: -1 }).catch((reason: unknown) => { throw away(reason) }) // prettier-ignore
  }

  async close(): Promise<void> {
    await this.#producer.disconnect().catch(() => undefined)
  }
}

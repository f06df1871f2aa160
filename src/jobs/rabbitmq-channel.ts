// Lines from a queue of RabbitMQ and answers to one. A message is acknowledged after its answer was confirmed.

import type { ChannelModel, ConfirmChannel, ConsumeMessage } from 'amqplib'
import type { Clock } from '../base/clock.ts'
import { messageOf, ServerError } from '../base/server-error.ts'
import { Arrivals } from './arrivals.ts'
import type { JobInput, JobItem, JobOutput } from './job-channel.ts'

/** What is used of the package `amqplib`. */
export type Amqplib = { connect(url: string, options?: { timeout?: number }): Promise<ChannelModel> }

const connectMs = 5000
const deadSuffix = '.dead'
const persistent = { persistent: true, contentType: 'application/json' }
/** A queue that is not there yet is made so that it survives the loss of a broker's node. */
const quorum = { durable: true, arguments: { 'x-queue-type': 'quorum' } }

/** A connection whose loss is remembered: every later call throws the reason. */
class AmqpSession {
  readonly connection: ChannelModel
  readonly channel: ConfirmChannel
  #lostBecause: string | null = null

  private constructor(connection: ChannelModel, channel: ConfirmChannel) {
    this.connection = connection
    this.channel = channel
    const lost = (reason?: unknown): void => {
      this.#lostBecause ??= messageOf(reason ?? 'the connection was closed')
    }
    connection.on('error', lost)
    connection.on('close', lost)
    channel.on('error', lost)
    channel.on('close', () => lost('the channel was closed'))
  }

  static async open(amqplib: Amqplib, url: string): Promise<AmqpSession> {
    try {
      const connection = await amqplib.connect(url, { timeout: connectMs })
      return new AmqpSession(connection, await connection.createConfirmChannel())
    } catch (reason) {
      throw new ServerError('UNAVAILABLE', `RabbitMQ at ${hostOf(url)} cannot be used: ${messageOf(reason)}`)
    }
  }

  /** Throws when the connection is lost. */
  check(): void {
    if (this.#lostBecause !== null) throw new ServerError('UNAVAILABLE', `RabbitMQ is away: ${this.#lostBecause}`)
  }

  /** Makes the queue if it is not there; a queue of another kind is taken as it is. */
  async requireQueue(url: string, amqplib: Amqplib, name: string): Promise<void> {
    const probe = await AmqpSession.open(amqplib, url)
    try {
      await probe.channel.checkQueue(name)
      return
    } catch {
      // The check of a missing queue closes its channel, hence the second connection.
    } finally {
      await probe.close()
    }
    await this.channel.assertQueue(name, quorum)
  }

  async close(): Promise<void> {
    await this.connection.close().catch(() => undefined)
  }
}

const hostOf = (url: string): string => URL.parse(url)?.host ?? url

export class RabbitmqInput implements JobInput {
  readonly #session: AmqpSession
  readonly #queue: string
  readonly #deadQueue: string
  readonly #arrived: Arrivals<ConsumeMessage>
  #isCancelled = false

  private constructor(session: AmqpSession, clock: Clock, queue: string) {
    this.#session = session
    this.#arrived = new Arrivals(clock)
    this.#queue = queue
    this.#deadQueue = `${queue}${deadSuffix}`
  }

  /** `mostHeld`: so many messages are held without an answer. */
  static async open(
    amqplib: Amqplib,
    clock: Clock,
    url: string,
    queue: string,
    mostHeld: number,
  ): Promise<RabbitmqInput> {
    const session = await AmqpSession.open(amqplib, url)
    const input = new RabbitmqInput(session, clock, queue)
    try {
      await session.requireQueue(url, amqplib, queue)
      await session.requireQueue(url, amqplib, input.#deadQueue)
      await session.channel.prefetch(mostHeld)
      await session.channel.consume(queue, (message) => {
        if (message !== null) input.#arrived.push(message)
        else {
          input.#isCancelled = true
          input.#arrived.wake()
        }
      })
      return input
    } catch (reason) {
      await session.close()
      throw ServerError.from(reason, `the queue '${queue}' cannot be read: `)
    }
  }

  async next(most: number): Promise<JobItem[]> {
    this.#session.check()
    if (this.#isCancelled) throw new ServerError('UNAVAILABLE', `the queue '${this.#queue}' was deleted`)
    return (await this.#arrived.take(most)).map(itemOf)
  }

  done(items: readonly JobItem[]): Promise<void> {
    this.#session.check()
    // One word for all of them: messages are marked in the order in which the queue gave them out.
    const last = items.at(-1)
    if (last !== undefined) this.#session.channel.ack(last.mark as ConsumeMessage, true)
    return Promise.resolve()
  }

  async putAside({ mark }: JobItem, reason: string): Promise<boolean> {
    this.#session.check()
    const { content, properties } = mark as ConsumeMessage
    const headers = { ...properties.headers, 'x-galatea-error': reason.slice(0, 1000) }
    this.#session.channel.sendToQueue(this.#deadQueue, content, { ...persistent, messageId: properties.messageId as string, headers }) // prettier-ignore
    await this.#session.channel.waitForConfirms()
    return true
  }

  async left(): Promise<number> {
    const { messageCount } = await this.#session.channel.checkQueue(this.#queue)
    return messageCount + this.#arrived.count
  }

  position(): null {
    return null
  }

  close(): Promise<void> {
    this.#arrived.wake()
    return this.#session.close()
  }
}

function itemOf(message: ConsumeMessage): JobItem {
  const { content, fields, properties } = message
  const counted = Number(properties.headers?.['x-delivery-count'] ?? 0)
  const earlierAttempts = Number.isSafeInteger(counted) && counted > 0 ? counted : 0
  const id: unknown = properties.messageId
  return { line: content, at: typeof id === 'string' && id !== '' ? id : String(fields.deliveryTag), earlierAttempts, mark: message } // prettier-ignore
}

export class RabbitmqOutput implements JobOutput {
  readonly #session: AmqpSession
  readonly #queue: string
  readonly writtenBytes = 0

  private constructor(session: AmqpSession, queue: string) {
    this.#session = session
    this.#queue = queue
  }

  static async open(amqplib: Amqplib, url: string, queue: string): Promise<RabbitmqOutput> {
    const session = await AmqpSession.open(amqplib, url)
    await session.requireQueue(url, amqplib, queue)
    return new RabbitmqOutput(session, queue)
  }

  async write(lines: readonly string[]): Promise<void> {
    this.#session.check()
    for (const line of lines) this.#session.channel.sendToQueue(this.#queue, Buffer.from(line.trimEnd()), persistent)
    await this.#session.channel.waitForConfirms()
  }

  close(): Promise<void> {
    return this.#session.close()
  }
}

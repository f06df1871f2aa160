// Opens what a job reads and writes. Clients of queues are imported on their first use.

import path from 'node:path'
import type { Clock } from '../base/clock.ts'
import { importPackage } from '../base/import-package.ts'
import { redisAddressOf, type RedisAddress } from '../base/redis-address.ts'
import type { RedisModule } from '../base/redis-client.ts'
import { ServerError } from '../base/server-error.ts'
import { FileInput, filesOf } from './file-input.ts'
import { FileOutput, outputInside } from './file-output.ts'
import type { JobInput, JobOutput } from './job-channel.ts'
import type { JobRecord } from './job-record.ts'
import type { JobStore } from './job-store.ts'
import type { Kafkajs } from './kafka-channel.ts'
import type { Amqplib } from './rabbitmq-channel.ts'

/** Where the operator lets jobs read and write; '' for nowhere. */
type ChannelOptions = {
  readonly filesRoot: string
  readonly redisUrl: string
  readonly rabbitmqUrl: string
  readonly kafkaBrokers: readonly string[]
}

/** The answers that the server keeps for one job. */
const mostKeptOutputBytes = 1024 * 1024 * 1024
/** Messages that a queue may give out before their turn, for each call under way. */
const heldPerCall = 4

export class JobChannels {
  readonly #options: ChannelOptions
  readonly #store: JobStore
  readonly #clock: Clock
  readonly #serverName: string

  constructor(options: ChannelOptions, store: JobStore, clock: Clock, serverName: string) {
    this.#options = options
    this.#store = store
    this.#clock = clock
    this.#serverName = serverName
  }

  async open(record: JobRecord, concurrency: number): Promise<{ input: JobInput; output: JobOutput }> {
    const input = await this.#input(record, concurrency)
    try {
      return { input, output: await this.#output(record) }
    } catch (reason) {
      await input.close()
      throw reason
    }
  }

  async #input({ id, plan: { input }, position }: JobRecord, concurrency: number): Promise<JobInput> {
    const { filesRoot, rabbitmqUrl } = this.#options
    if (input.kind === 'files') {
      const files = await filesOf(filesRoot, input.pattern)
      return new FileInput(files, position, (file) => path.relative(filesRoot, file))
    }
    if (input.kind === 'lines') return new FileInput([this.#store.inputFile(id)], position, () => 'line')
    if (input.kind === 'redis') {
      const names = { ...input, consumer: `${this.#serverName}:${id}`, nowMs: () => this.#clock.nowNs() / 1e6 }
      const { RedisInput } = await import('./redis-channel.ts')
      return RedisInput.open(await redisClient(), this.#redis(), names)
    }
    if (input.kind === 'rabbitmq') {
      const { RabbitmqInput } = await import('./rabbitmq-channel.ts')
      return RabbitmqInput.open(await amqplib(), rabbitmqUrl, input.name, concurrency * heldPerCall)
    }
    const { KafkaInput, openKafka } = await import('./kafka-channel.ts')
    return KafkaInput.open(openKafka(await kafkajs(), this.#options.kafkaBrokers), input.name, input.group)
  }

  async #output({ id, plan: { output }, position }: JobRecord): Promise<JobOutput> {
    const kept = position?.outputBytes ?? 0
    if (output.kind === 'file') return FileOutput.open(await outputInside(this.#options.filesRoot, output.path), kept)
    if (output.kind === 'kept') return FileOutput.open(this.#store.outputFile(id), kept, mostKeptOutputBytes)
    if (output.kind === 'redis') {
      const { RedisOutput } = await import('./redis-channel.ts')
      return RedisOutput.open(await redisClient(), this.#redis(), output.name)
    }
    if (output.kind === 'rabbitmq') {
      const { RabbitmqOutput } = await import('./rabbitmq-channel.ts')
      return RabbitmqOutput.open(await amqplib(), this.#options.rabbitmqUrl, output.name)
    }
    const { KafkaOutput, openKafka } = await import('./kafka-channel.ts')
    return KafkaOutput.open(openKafka(await kafkajs(), this.#options.kafkaBrokers), output.name)
  }

  #redis(): RedisAddress {
    const address = redisAddressOf(this.#options.redisUrl)
    if (address === null) throw new ServerError('INVALID_ARG', '--jobs-redis must be redis://HOST:PORT/DATABASE')
    return address
  }
}

const redisClient = (): Promise<RedisModule> => importPackage('@redis/client', '--jobs-redis')
const amqplib = (): Promise<Amqplib> => importCommon('amqplib', '--jobs-rabbitmq')
const kafkajs = (): Promise<Kafkajs> => importCommon('kafkajs', '--jobs-kafka')

/** What a CommonJS package exports is its default export for `import`. */
async function importCommon<Package>(name: string, purpose: string): Promise<Package> {
  const { default: exported } = await importPackage<{ readonly default: Package }>(name, purpose)
  return exported
}

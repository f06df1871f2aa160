// Opens what a job reads and writes. Clients of queues are imported on their first use.

import path from 'node:path'
import type { Clock } from '../base/clock.ts'
import { importPackage } from '../base/import-package.ts'
import { redisAddressOf, type RedisAddress } from '../base/redis-address.ts'
import type { RedisModule } from '../base/redis-client.ts'
import { ServerError } from '../base/server-error.ts'
import { isCloudAddress, requireCloud, type CloudFiles } from './cloud-files.ts'
import { FileClaims } from './file-claims.ts'
import { FileInput, filesOf } from './file-input.ts'
import { FileOutput, outputInside } from './file-output.ts'
import type { JobInput, JobOutput } from './job-channel.ts'
import { isQueueKind } from './job-plan.ts'
import type { JobRecord } from './job-record.ts'
import type { JobStore } from './job-store.ts'
import type { Kafkajs } from './kafka-channel.ts'
import { CloudPieces, DiskPieces } from './piece-reader.ts'
import type { Amqplib } from './rabbitmq-channel.ts'

/** Where the operator lets jobs read and write; '' for nowhere. */
type ChannelOptions = {
  readonly filesRoot: string
  readonly redisUrl: string
  readonly rabbitmqUrl: string
  readonly kafkaBrokers: readonly string[]
  readonly cloudPartBytes: number
}

/** Messages that RabbitMQ gives out before their turn, and for each call under way. More than a run has between reading and mark. */
const heldMessages = 512
const heldPerCall = 8

export class JobChannels {
  readonly #options: ChannelOptions
  readonly #store: JobStore
  readonly #clock: Clock
  readonly #serverName: string
  readonly #cloud: CloudFiles | null
  readonly #claims = new FileClaims()

  /** `cloud` is null where the operator named no place in a cloud. */
  constructor(options: ChannelOptions, store: JobStore, clock: Clock, serverName: string, cloud: CloudFiles | null) {
    this.#options = options
    this.#cloud = cloud
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
    if (input.kind === 'files' && isCloudAddress(input.pattern)) {
      const cloud = requireCloud(this.#cloud)
      return new FileInput(new CloudPieces(cloud, await cloud.find(input.pattern)), position)
    }
    if (input.kind === 'files') {
      const files = await filesOf(filesRoot, input.pattern)
      const pieces = new DiskPieces(files, (file) => path.relative(filesRoot, file))
      return new FileInput(pieces, position, this.#claims.read(files))
    }
    if (input.kind === 'lines')
      return new FileInput(new DiskPieces([this.#store.inputFile(id)], () => 'line'), position)
    if (input.kind === 'redis') {
      const names = { ...input, consumer: `${this.#serverName}:${id}`, nowMs: () => this.#clock.nowNs() / 1e6 }
      const { RedisInput } = await import('./redis-channel.ts')
      return RedisInput.open(await redisClient(), this.#redis(), names)
    }
    if (input.kind === 'rabbitmq') {
      const { RabbitmqInput } = await import('./rabbitmq-channel.ts')
      return RabbitmqInput.open(
        await amqplib(),
        this.#clock,
        rabbitmqUrl,
        input.name,
        Math.max(heldMessages, concurrency * heldPerCall),
      )
    }
    const { KafkaInput, openKafka } = await import('./kafka-channel.ts')
    return KafkaInput.open(openKafka(await kafkajs(), this.#options.kafkaBrokers), this.#clock, input.name, input.group)
  }

  async #output({ id, plan: { input, output }, position }: JobRecord): Promise<JobOutput> {
    const kept = position?.outputBytes ?? 0
    if (output.kind === 'file' && isCloudAddress(output.path)) {
      const { CloudOutput } = await import('./cloud-output.ts')
      const place = {
        address: output.path,
        folder: this.#store.uploadFolder(id),
        partBytes: this.#options.cloudPartBytes,
      }
      return CloudOutput.open(requireCloud(this.#cloud), place, kept)
    }
    if (output.kind === 'file' || output.kind === 'kept') {
      const file = output.kind === 'kept' ? this.#store.outputFile(id) : await outputInside(this.#options.filesRoot, output.path) // prettier-ignore
      const mostBytes = output.kind === 'kept' ? await this.#store.roomForAnswers(id) : Infinity
      const release = this.#claims.write(file)
      try {
        return await (isQueueKind(input.kind) ? FileOutput.openAtEnd(file, mostBytes, release) : FileOutput.open(file, kept, mostBytes, release)) // prettier-ignore
      } catch (reason) {
        release()
        throw reason
      }
    }
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

  /** Nobody will go on with the job: what was begun in a cloud is given up. */
  async discard({ id, plan: { output } }: JobRecord): Promise<void> {
    if (output.kind !== 'file' || !isCloudAddress(output.path) || this.#cloud === null) return
    const { CloudOutput } = await import('./cloud-output.ts')
    await CloudOutput.discard(this.#cloud, this.#store.uploadFolder(id))
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

// Messages of real queues, with a server that is killed (`kill -9`) in the middle: what came of each message. GALATEA_JOB_MESSAGES says how many
// messages (100,000), GALATEA_JOB_QUEUES which systems (redis,rabbitmq,kafka).

import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createClient } from '@redis/client'
import amqplib from 'amqplib'
import kafkajs from 'kafkajs'
import { Ends, startKafka, startRabbitmq, startRedis } from '../test/e2e/queue-brokers.ts'
import { exampleModels, startServerProcess } from '../test/e2e/server-process.ts'
import { until } from '../test/until.ts'
import type { Bench, Figure } from './bench.ts'

const messageCount = Number(process.env['GALATEA_JOB_MESSAGES'] ?? 100_000)
const systems = (process.env['GALATEA_JOB_QUEUES'] ?? 'redis,rabbitmq,kafka').split(',')
const patience = { seconds: 1800, everyMs: 200 }
const sendTogether = 1000
/** Messages of Kafka that were sent and have no answer. */
const mostAhead = 15_000

const lineOf = (i: number): string => {
  const data = Array.from({ length: 16 }, () => i % 1000)
  const inputs = ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1, 16], data }))
  return JSON.stringify({ id: `r${i}`, inputs })
}

/** How often each message was answered. */
class Answers {
  readonly counts = new Map<string, number>()
  total = 0

  add(text: string): void {
    const [, id = ''] = /"id":"(r\d+)"/.exec(text) ?? []
    if (id === '') throw new Error(`an answer without the id of its message: ${text.slice(0, 200)}`)
    this.counts.set(id, (this.counts.get(id) ?? 0) + 1)
    this.total++
  }
}

/** A system that runs, with all messages in it. Answers are counted as they come. */
type Queue = { readonly flag: string; readonly input: object; readonly output: object }

async function fillRedis(ends: Ends, folder: string, answers: Answers): Promise<Queue> {
  const url = await startRedis(ends, folder)
  const client = createClient({ url })
  client.on('error', () => undefined)
  await client.connect()
  const reader = await client.duplicate().connect()
  const over = new AbortController()
  for (let i = 0; i < messageCount; i += sendTogether) {
    await Promise.all(Array.from({ length: Math.min(sendTogether, messageCount - i) }, (_, k) => client.xAdd('in', '*', { body: lineOf(i + k) }))) // prettier-ignore
  }
  const read = async (): Promise<void> => {
    for (let from = '0'; !over.signal.aborted;) {
      const found = (await reader.xRange('out', `(${from}`, '+', { COUNT: 1000 })) ?? []
      for (const { message } of found) answers.add(message['body'] ?? '')
      from = found.at(-1)?.id ?? from
      if (found.length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const reading = read()
  ends.add(async () => {
    over.abort()
    await reading
    reader.destroy()
    client.destroy()
  })
  return {
    flag: `--jobs-redis=${url}`,
    input: { redis: { stream: 'in' } },
    output: { redis: { stream: 'out' } },
  }
}

async function fillRabbitmq(ends: Ends, folder: string, answers: Answers): Promise<Queue> {
  const url = await startRabbitmq(ends, folder)
  const connection = await amqplib.connect(url)
  ends.add(() => connection.close())
  const channel = await connection.createConfirmChannel()
  const quorum = { durable: true, arguments: { 'x-queue-type': 'quorum' } }
  for (const queue of ['in', 'out']) await channel.assertQueue(queue, quorum)
  for (let i = 0; i < messageCount; i++) {
    if (!channel.sendToQueue('in', Buffer.from(lineOf(i)), { persistent: true })) await once(channel, 'drain')
    if (i % sendTogether === 0) await channel.waitForConfirms()
  }
  await channel.waitForConfirms()
  await channel.consume('out', (message) => message !== null && answers.add(message.content.toString()), { noAck: true }) // prettier-ignore
  return {
    flag: `--jobs-rabbitmq=${url}`,
    input: { rabbitmq: { queue: 'in' } },
    output: { rabbitmq: { queue: 'out' } },
  }
}

async function fillKafka(ends: Ends, _: string, answers: Answers): Promise<Queue> {
  const broker = await startKafka(ends)
  const kafka = new kafkajs.Kafka({ brokers: [broker], logLevel: kafkajs.logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  ends.add(() => producer.disconnect())
  // These brokers keep some megabytes of a topic and forget what is older, read or not. So messages are sent as answers come.
  const over = new AbortController()
  const feed = async (): Promise<void> => {
    for (let i = 0; i < messageCount && !over.signal.aborted; i += sendTogether) {
      await until(() => i - answers.counts.size < mostAhead || over.signal.aborted, 'answers', {
        ...patience,
        everyMs: 20,
      })
      const messages = Array.from({ length: Math.min(sendTogether, messageCount - i) }, (__, k) => ({ value: lineOf(i + k) })) // prettier-ignore
      await producer.send({ topic: 'in', messages })
    }
  }
  // The topic is made by its first message.
  await producer.send({ topic: 'out', messages: [{ value: 'first' }] })
  const consumer = kafka.consumer({ groupId: 'reader' })
  await consumer.connect()
  ends.add(() => consumer.disconnect())
  await consumer.subscribe({ topics: ['out'], fromBeginning: true })
  const add = (text: string): void => (text === 'first' ? undefined : answers.add(text))
  await consumer.run({ eachMessage: ({ message }) => Promise.resolve(add(message.value?.toString() ?? '')) })
  const feeding = feed()
  ends.add(async () => {
    over.abort()
    await feeding
  })
  return { flag: `--jobs-kafka=${broker}`, input: { kafka: { topic: 'in' } }, output: { kafka: { topic: 'out' } } }
}

const fill = { redis: fillRedis, rabbitmq: fillRabbitmq, kafka: fillKafka }

async function measure(system: keyof typeof fill, say: (line: string) => void): Promise<Figure[]> {
  const ends = new Ends()
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-ledger-'))
  ends.add(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  try {
    await mkdir(path.join(folder, 'state'))
    const answers = new Answers()
    const { flag, input, output } = await fill[system](ends, folder, answers)
    const plan = JSON.stringify({ model: 'simple', input, output, concurrency: 8 })
    const models = ['--model-repository', exampleModels, '--allow-grpc=false', '--allow-metrics=false']
    const flags = [...models, '--allow-jobs=true', '--state-dir', path.join(folder, 'state'), flag, `--job=${plan}`]
    const startedMs = performance.now()
    const killed = await startServerProcess(flags)
    ends.add(() => killed.stop())
    await until(() => answers.total > messageCount / 2, 'half of the answers', patience)
    killed.signal('SIGKILL')
    await killed.exited
    const atKill = answers.total
    const server = await startServerProcess(flags)
    ends.add(() => server.stop())
    await until(() => answers.counts.size === messageCount, 'all answers', { ...patience, seen: () => String(answers.counts.size) }).catch(() => undefined) // prettier-ignore
    const seconds = (performance.now() - startedMs) / 1000
    const lost = messageCount - answers.counts.size
    const twice = answers.total - answers.counts.size
    const detail = `${messageCount} messages, ${atKill} answered before kill -9, ${answers.counts.size} answered in the end, ${lost} lost, ${twice} answered twice with equal ids, ${seconds.toFixed(0)} s, ${(messageCount / seconds).toFixed(0)} messages/s` // prettier-ignore
    say(`${system}: ${detail}`)
    return [
      { what: `${system}: messages lost by kill -9`, value: lost, unit: '', target: { kind: 'at most', value: 0 }, detail }, // prettier-ignore
      { what: `${system}: messages answered twice`, value: twice, unit: '', target: null, detail },
    ]
  } finally {
    await ends.close()
  }
}

export const bench: Bench = {
  name: 'job-queues',
  summary: 'messages of Redis, RabbitMQ and Kafka with kill -9 in the middle: none may be lost',
  async run({ say }) {
    const figures: Figure[] = []
    for (const system of Object.keys(fill) as (keyof typeof fill)[]) {
      if (systems.includes(system)) figures.push(...(await measure(system, say)))
    }
    return figures
  },
}

// Jobs over a real RabbitMQ, and over the brokers that librdkafka brings for tests.

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import amqplib from 'amqplib'
import kafkajs from 'kafkajs'
import { until } from '../until.ts'
import { Ends, startKafka, startRabbitmq } from './queue-brokers.ts'
import { exampleModels, startServerProcess, type ServerProcess } from './server-process.ts'

/** `GALATEA_JOB_MESSAGES=100000` for a long proof. */
const messageCount = Number(process.env['GALATEA_JOB_MESSAGES'] ?? 1500)
const patience = { seconds: 60 + messageCount / 100, everyMs: Math.min(1000, messageCount / 100) }

const lineOf = (i: number): string => {
  const data = Array.from({ length: 16 }, () => i)
  return JSON.stringify({
    id: `r${i}`,
    inputs: ['INPUT0', 'INPUT1'].map((name) => ({ name, datatype: 'INT32', shape: [1, 16], data })),
  })
}

function endsOf(t: TestContext): Ends {
  const ends = new Ends()
  t.after(() => ends.close())
  return ends
}

async function folderOf(ends: Ends): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-queues-'))
  ends.add(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  await mkdir(path.join(folder, 'state'))
  return folder
}

const flagsOf = (folder: string, ...more: string[]): string[] => {
  const models = ['--model-repository', exampleModels, '--allow-grpc=false', '--allow-metrics=false']
  return [...models, '--allow-jobs=true', '--state-dir', path.join(folder, 'state'), ...more]
}

async function posted({ url }: ServerProcess, input: unknown, output: unknown): Promise<void> {
  const body = JSON.stringify({ model: 'simple', input, output, concurrency: 8 })
  const answer = await fetch(`${url}/v2/jobs`, { method: 'POST', body })
  assert.equal(answer.status, 201, await answer.text())
}

/** Posts the job, kills the server in the middle of it, and starts another one, which goes on. */
async function withKill(
  ends: Ends,
  flags: string[],
  job: { input: unknown; output: unknown; answerCount(): number },
): Promise<void> {
  const killed = await startServerProcess(flags)
  ends.add(() => killed.stop())
  await posted(killed, job.input, job.output)
  await until(() => job.answerCount() > messageCount / 3, 'some answers', { ...patience, seen: () => killed.output })
  killed.signal('SIGKILL')
  await killed.exited
  const server = await startServerProcess(flags)
  ends.add(() => server.stop())
}

const idOf = (text: string): string => (JSON.parse(text) as { id: string }).id

test('messages of RabbitMQ: a server that is killed loses none, and bad ones are put aside', async (t) => {
  const ends = endsOf(t)
  const folder = await folderOf(ends)
  const url = await startRabbitmq(ends, folder)
  const connection = await amqplib.connect(url)
  ends.add(() => connection.close())
  const channel = await connection.createConfirmChannel()
  for (const queue of ['in', 'out']) await channel.assertQueue(queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } }) // prettier-ignore
  const count = messageCount
  for (let i = 0; i < count; i++) channel.sendToQueue('in', Buffer.from(lineOf(i)), { persistent: true })
  channel.sendToQueue('in', Buffer.from('{"id":"bad"}'), { persistent: true })
  await channel.waitForConfirms()
  const answers: string[] = []
  await channel.consume('out', (message) => message !== null && answers.push(message.content.toString()), { noAck: true }) // prettier-ignore
  await withKill(ends, flagsOf(folder, '--jobs-rabbitmq', url), {
    input: { rabbitmq: { queue: 'in' } },
    output: { rabbitmq: { queue: 'out' } },
    answerCount: () => answers.length,
  })
  await until(() => new Set(answers.map(idOf)).size === count + 1, 'all answers', {
    ...patience,
    seen: () => String(answers.length),
  })
  const twice = answers.length - new Set(answers).size
  assert.equal(answers.length - twice, count + 1, 'answers that came twice are equal')
  t.diagnostic(`${count} messages, ${twice} answers came twice`)
  await until(async () => (await channel.checkQueue('in.dead')).messageCount === 1, 'the dead letter')
  const dead = await channel.get('in.dead')
  assert.ok(dead !== false)
  assert.equal(dead.content.toString(), '{"id":"bad"}')
  assert.match(String(dead.properties.headers?.['x-galatea-error']), /the request has no 'inputs'/)
})

test('messages of Kafka: a server that is killed loses none, and bad ones are put aside', async (t) => {
  const ends = endsOf(t)
  const folder = await folderOf(ends)
  const broker = await startKafka(ends)
  const kafka = new kafkajs.Kafka({ brokers: [broker], logLevel: kafkajs.logLevel.NOTHING })
  const producer = kafka.producer()
  await producer.connect()
  ends.add(() => producer.disconnect())
  const count = messageCount
  const messages = Array.from({ length: count }, (_, i) => ({ value: lineOf(i) }))
  await producer.send({ topic: 'in', messages: [...messages, { value: '{"id":"bad"}' }] })
  for (const topic of ['out', 'in.dead']) await producer.send({ topic, messages: [{ value: '{"id":"first"}' }] })
  const found: Record<string, string[]> = { out: [], 'in.dead': [] }
  const consumer = kafka.consumer({ groupId: 'reader' })
  await consumer.connect()
  ends.add(() => consumer.disconnect())
  await consumer.subscribe({ topics: Object.keys(found), fromBeginning: true })
  await consumer.run({
    eachMessage: ({ topic, message }) => Promise.resolve(void found[topic]?.push(message.value?.toString() ?? '')),
  })
  await withKill(ends, flagsOf(folder, '--jobs-kafka', broker), {
    input: { kafka: { topic: 'in' } },
    output: { kafka: { topic: 'out' } },
    answerCount: () => found['out']?.length ?? 0,
  })
  const ids = (topic: string): Set<string> => new Set(found[topic]?.map(idOf))
  await until(() => ids('out').size === count + 2, 'all answers', { ...patience, seen: () => String(ids('out').size) })
  await until(() => ids('in.dead').has('bad'), 'the dead letter')
})

// A real Redis, a real RabbitMQ, and the brokers of Kafka that librdkafka brings for tests.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'

/** Ends what was opened, the last thing first: a client waits for an answer of its broker. */
export class Ends {
  readonly #ends: (() => unknown)[] = []

  async close(): Promise<void> {
    for (const end of this.#ends.splice(0).toReversed()) await end()
  }

  add(end: () => unknown): void {
    this.#ends.push(end)
  }
}

/** Nothing of it is on a disk. */
export async function startRedis(ends: Ends, folder: string): Promise<string> {
  const port = await freePort()
  const program = await requireTool('redis-server')
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '']
  const redis = spawn(program, flags, { stdio: 'ignore' })
  ends.add(() => redis.kill('SIGKILL'))
  return `redis://127.0.0.1:${port}`
}

export async function startRabbitmq(ends: Ends, folder: string): Promise<string> {
  const [port, distPort] = [await freePort(), await freePort()]
  const environment = {
    ...process.env,
    HOME: folder,
    RABBITMQ_NODENAME: `galatea${port}@localhost`,
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_DIST_PORT: String(distPort),
    RABBITMQ_MNESIA_BASE: path.join(folder, 'mnesia'),
    RABBITMQ_LOG_BASE: path.join(folder, 'log'),
    RABBITMQ_PID_FILE: path.join(folder, 'pid'),
    RABBITMQ_ENABLED_PLUGINS_FILE: path.join(folder, 'plugins'),
    RABBITMQ_CONFIG_FILE: path.join(folder, 'none'),
  }
  const program = path.join('/usr/lib/rabbitmq/bin', path.basename(await requireTool('rabbitmq-server')))
  const child = spawn(program, [], { env: environment, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  ends.add(async () => {
    const ended = once(child, 'exit')
    process.kill(-(child.pid ?? 0), 'SIGKILL')
    await ended
  })
  await until(() => output.includes('Starting broker... completed'), 'RabbitMQ', { seconds: 180, seen: () => output })
  return `amqp://guest:guest@127.0.0.1:${port}`
}

export async function startKafka(ends: Ends): Promise<string> {
  const program = `
from confluent_kafka import Producer
import sys
producer = Producer({'test.mock.num.brokers': 1, 'bootstrap.servers': 'none'})
broker = list(producer.list_topics(timeout=30).brokers.values())[0]
print(f'{broker.host}:{broker.port}', flush=True)
sys.stdin.read()
`
  const child: ChildProcess = spawn(await requireTool('kafka-mock'), ['-c', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  ends.add(() => child.kill('SIGKILL'))
  const [address] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
  return address.toString().trim()
}

// `galatea work`: a server that takes its requests from a queue. Its HTTP port stays for health and for the state of the job.

import type { CommandIo } from './command-io.ts'
import { runServe } from './serve.ts'

const help = `Usage: galatea work --model NAME --queue KIND:NAME [--output KIND:NAME] [--group NAME] [--concurrency N] [flags of galatea serve]

Runs a model over the messages of a queue, until the process is ended. KIND is redis, rabbitmq or kafka.

  galatea work --model digits --queue redis:in --output redis:out --jobs-redis redis://127.0.0.1:6379 --model-repository models

  --model NAME           the model that answers
  --queue KIND:NAME      where the messages come from; --jobs-redis, --jobs-rabbitmq or --jobs-kafka says where it is
  --output KIND:NAME     where the answers go
  --group NAME           workers of one group share the messages
  --concurrency N        messages under way at a time

docs/guide/jobs.md says what a message holds. Exit status: 0 after a signal, 1 when the worker cannot start.
`

const nameKeys: Readonly<Record<string, string>> = { redis: 'stream', rabbitmq: 'queue', kafka: 'topic' }
const own = ['model', 'queue', 'output', 'group', 'concurrency'] as const

export async function runWork(args: string[], io: CommandIo): Promise<number> {
  if (args.length === 0 || args.includes('--help') || args.includes('-h')) {
    io.stdout(help)
    return args.length === 0 ? 1 : 0
  }
  const flags = workFlags(args)
  if (typeof flags === 'string') {
    io.stderr(`galatea work: ${flags}\n${help}`)
    return 1
  }
  return runServe(flags, io)
}

/** The flags of `galatea serve` that do the same; text says what is wrong. */
export function workFlags(args: readonly string[]): string[] | string {
  const given = new Map<string, string>()
  const rest: string[] = []
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? ''
    const [name = '', ...value] = arg.replace(/^--/, '').split('=')
    if (!arg.startsWith('--') || !(own as readonly string[]).includes(name)) rest.push(arg)
    else given.set(name, value.length > 0 ? value.join('=') : (args[++i] ?? ''))
  }
  const model = given.get('model') ?? ''
  if (model === '') return '--model is missing: the name of the model that answers'
  const input = channelOf('queue', given.get('queue') ?? '')
  if (typeof input === 'string') return input
  const output = given.has('output') ? channelOf('output', given.get('output') ?? '') : null
  if (typeof output === 'string') return output
  const concurrency = given.has('concurrency') ? Number(given.get('concurrency')) : null
  if (concurrency !== null && !Number.isSafeInteger(concurrency)) return '--concurrency must be a whole number'
  const [[kind, names] = ['', {}]] = Object.entries(input)
  const group = given.get('group')
  const job = {
    model,
    input: { [kind]: group === undefined ? names : { ...names, group } },
    ...(output === null ? {} : { output }),
    ...(concurrency === null ? {} : { concurrency }),
    // Nobody else asks a worker.
    while_pressure_below: 100,
  }
  return ['--allow-jobs=true', '--allow-grpc=false', `--job=${JSON.stringify(job)}`, ...rest]
}

function channelOf(flag: string, text: string): Record<string, Record<string, string>> | string {
  const [kind = '', ...name] = text.split(':')
  const key = nameKeys[kind]
  if (key === undefined || name.join(':') === '') {
    return `--${flag} must be redis:NAME, rabbitmq:NAME or kafka:NAME, got '${text}'`
  }
  return { [kind]: { [key]: name.join(':') } }
}

// The text of --help, made from the table of flags.

import type { Flag } from '../options/flag.ts'
import { flagGroups, flagTable } from '../options/flag-table.ts'

export const overview = `Galatea serves machine-learning models over HTTP and gRPC, as NVIDIA's Triton Inference Server does.

Usage: galatea [serve] --model-repository PATH [flags]   serve models
       galatea check PATH                                find the mistakes in a model repository
       galatea inspect MODEL                             show what a model file holds
       galatea init MODEL --repository PATH              put a model file into a repository
       galatea init --template NAME                      a small model to begin with: python, sklearn, pytorch, …
       galatea new FOLDER                                a TypeScript project with a model, a test and a client
       galatea import ARCHIVE --model-repository PATH    make a TorchServe archive a model of a repository
       galatea torchserve …                              start with a command line of TorchServe
       galatea doctor [flags]                            check this machine: what is missing, and what to do
       galatea fetch REPOSITORY FOLDER                   copy a repository from S3, GCS or Azure into a folder
       galatea fleet --upstream http://a:8000,http://b:8000   steer Envoy in front of several servers
       galatea health [--live]                           ask a running server how it is
       galatea keys create|list|revoke|rotate            API keys of --access-config
       galatea predict -m MODEL images/*.jpg             upload files to a running server, and print what they are
       galatea perf -m MODEL                             measure a model on a running server
       galatea work --model MODEL --queue redis:NAME      answer the messages of a queue
       galatea tune -m MODEL --model-repository PATH     find batch size, delay and instances by measuring
       galatea rollout list                              see and steer how new versions take over
       galatea tfserving --model_base_path=PATH          serve as tensorflow_model_server does
       galatea COMMAND --help                            what a command takes
       galatea --version

Try it now: galatea --examples
`

const column = 44
const width = 110

export function serveHelp(): string {
  const lines = [
    'Usage: galatea [serve] --model-repository PATH [flags]',
    '',
    'Flags are written --flag=value or --flag value; a bare boolean flag means true. Each can also be set by an',
    'environment variable: GALATEA_HTTP_PORT for --http-port. * marks flags that may be repeated.',
  ]
  for (const [title, flags] of flagGroups) {
    const shown = flags.filter(({ traits }) => traits.status === 'works')
    if (shown.length > 0) lines.push('', `${title}:`, ...shown.flatMap(flagLines))
  }
  const without = flagTable.filter(({ traits }) => traits.status === 'accepted').map(({ name }) => `--${name}`)
  lines.push(
    '',
    "Flags of Triton's that are accepted and have no effect in this version:",
    ...wrap(without.join(' '), 2),
  )
  const deprecated = flagTable.filter(({ traits }) => traits.status === 'deprecated')
  lines.push('', 'Deprecated:', ...deprecated.flatMap(flagLines))
  return `${lines.join('\n')}\n`
}

function flagLines({ name, form, help, default: byDefault, traits }: Flag): string[] {
  const value = form.placeholder
  const head = `  --${name}${value === '' ? '' : ` ${value}`}${traits.isRepeatable ? ' *' : ''}`
  const isPlain = byDefault === '' || form.kind === 'switch'
  const triton = traits.tritonDefault === byDefault ? '' : `; ${traits.tritonDefault} with --triton-defaults`
  const body = wrap(`${help}${isPlain ? '' : ` (default ${byDefault}${triton})`}`, column)
  if (head.length + 2 > column) return [head, ...body]
  return [head.padEnd(column) + (body[0] ?? '').slice(column), ...body.slice(1)]
}

function wrap(text: string, indent: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent + line.length + 1 + word.length > width) {
      lines.push(' '.repeat(indent) + line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, ' '.repeat(indent) + line]
}

import type { Flag } from '../src/options/flag.ts'
import { environmentName, flagGroups, flagTable } from '../src/options/flag-table.ts'

const head = `# Flags of \`galatea serve\`

\`\`\`sh
galatea --model-repository ./models --http-port 8000 --log-verbose 1
\`\`\`

- \`--flag=value\` and \`--flag value\` mean the same; a bare boolean flag means \`true\`. Booleans are \`true\`, \`on\`, \`1\`,
  \`false\`, \`off\`, \`0\` in any case.
- Every flag can be set by an environment variable: \`${environmentName('http-port')}\` for \`--http-port\`. Several values of a
  repeatable flag are separated by \`;\`. The command line wins. \`MODEL_REPOSITORY_PATH\` names a repository when nothing else
  does.
- \`--triton-defaults\` switches to Triton's defaults where Galatea's are safer; a flag that is set still wins.
- An unknown flag ends the start with the nearest known one. A flag of Triton's that this version does not act on is
  accepted, its value checked, and named in one warning line.

Names and meanings are Triton's, except for flags marked "Galatea only".
`

const variables = `## Other environment variables

| Variable | What it does |
|---|---|
| \`MODEL_REPOSITORY_PATH\` | The repository, when no flag names one |
| \`GALATEA_ONNX_BINDING\` | \`javascript\` runs ONNX models through the [JavaScript API](../guide/onnx-models.md#platforms) |
| \`CUDA_VISIBLE_DEVICES\` | Which GPUs models may use; empty for none |
| \`TRITON_SERVER_CPU_ONLY\` | Set to anything: no metrics of GPUs |
| \`TRITON_SERVER_ESCAPE_LOG_MESSAGES\` | \`0\` leaves line breaks and control characters in log lines as they are |
| \`TRITONSERVER_DELAY_SCHEDULER\`, \`TRITONSERVER_BACKLOG_DELAY_SCHEDULER\` | For tests, as in Triton: a model with a batcher begins when so many requests wait; the second counts those of sequences that have no slot yet |
| \`TRITONCACHE_REDIS_USERNAME\`, \`TRITONCACHE_REDIS_PASSWORD\` | Credentials of the [cache in Redis](../guide/response-cache.md#in-redis-for-several-servers) |
| \`TRITON_CLOUD_CREDENTIAL_PATH\`, \`AWS_…\`, \`GOOGLE_…\`, \`AZURE_…\` | Credentials of [cloud storage](../guide/cloud-storage.md#credentials) |
| \`GALATEA_URL\` | The server that \`galatea rollout\` asks; \`http://localhost:8000\` without it |
| \`XDG_STATE_HOME\` | Where rollouts are kept without \`--state-dir\`: its folder \`galatea/<id>\`; without it \`~/.local/state/galatea/<id>\` |
| \`XDG_CACHE_HOME\` | Where downloads, environments and compiled code are kept: its folder \`galatea\`; without it \`~/.cache/galatea\` |
| \`UV_THREADPOOL_SIZE\` | Threads for files and compression; without it one more than the cores, at least 4 and at most 64 |
| \`NODE_COMPILE_CACHE\` | Another folder for the compiled code of the server itself |
`

const acceptedIntroduction = `So that a command line of Triton's works as it is: values are checked, and a start that sets one of these names it in
a warning. The texts say what each does in Triton. There are no pools of threads or requests to size here, and no CUDA
memory.`

/** docs/reference/flags.md, made from the table of flags. */
export function flagsDocument(): string {
  const parts = [head]
  const having = (flags: readonly Flag[], status: Flag['traits']['status']): Flag[] =>
    flags.filter(({ traits }) => traits.status === status)
  for (const [title, flags] of flagGroups) {
    const working = having(flags, 'works')
    if (working.length > 0) parts.push(section(title, working))
  }
  parts.push(section('Deprecated', having(flagTable, 'deprecated')))
  const accepted = having(flagTable, 'accepted')
  parts.push(section('Accepted, without effect in this version', accepted, acceptedIntroduction))
  parts.push(variables)
  return parts.join('\n')
}

function section(title: string, flags: readonly Flag[], introduction = ''): string {
  const rows = flags.map((flag) => `| ${cells(flag).map(escapeCell).join(' | ')} |`)
  const head = introduction === '' ? [`## ${title}`, ''] : [`## ${title}`, '', introduction, '']
  return [...head, '| Flag | Default | What it does |', '|---|---|---|', ...rows, ''].join('\n')
}

function cells({ name, form, help, default: byDefault, traits }: Flag): string[] {
  const notes = [
    help.replaceAll('<', '\\<'),
    traits.isRepeatable ? 'Repeatable' : '',
    traits.tritonDefault === byDefault ? '' : `With \`--triton-defaults\`: \`${traits.tritonDefault}\``,
    traits.isTritons ? '' : 'Galatea only',
  ]
  return [
    `\`--${name}${form.placeholder === '' ? '' : ` ${form.placeholder}`}\``,
    byDefault === '' ? '' : `\`${byDefault}\``,
    notes.filter((note) => note !== '').join('. '),
  ]
}

const escapeCell = (text: string): string => text.replaceAll('|', '\\|')

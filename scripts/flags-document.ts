import { environmentName, flagTable, placeholderOf, type FlagSpec } from '../src/cli/flag-table.ts'

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

/** docs/reference/flags.md, made from the table of flags. */
export function flagsDocument(): string {
  const parts = [head]
  const working = flagTable.filter((spec) => spec.status === 'works')
  for (const group of new Set(working.map((spec) => spec.group))) {
    parts.push(
      section(
        group,
        working.filter((spec) => spec.group === group),
      ),
    )
  }
  parts.push(
    section(
      'Deprecated',
      flagTable.filter((spec) => spec.status === 'deprecated'),
    ),
  )
  const accepted = flagTable.filter((spec) => spec.status === 'accepted')
  parts.push(section('Accepted, without effect in this version', accepted))
  return parts.join('\n')
}

function section(title: string, specs: readonly FlagSpec[]): string {
  const rows = specs.map((spec) => `| ${cells(spec).map(escapeCell).join(' | ')} |`)
  return [`## ${title}`, '', '| Flag | Default | What it does |', '|---|---|---|', ...rows, ''].join('\n')
}

function cells(spec: FlagSpec): string[] {
  const value = placeholderOf(spec.form)
  const notes = [
    spec.help.replaceAll('<', '\\<'),
    spec.isRepeatable ? 'Repeatable' : '',
    spec.tritonDefault === spec.default ? '' : `With \`--triton-defaults\`: \`${spec.tritonDefault}\``,
    spec.isTritons ? '' : 'Galatea only',
  ]
  return [
    `\`--${spec.name}${value === '' ? '' : ` ${value}`}\``,
    spec.default === '' ? '' : `\`${spec.default}\``,
    notes.filter((note) => note !== '').join('. '),
  ]
}

const escapeCell = (text: string): string => text.replaceAll('|', '\\|')

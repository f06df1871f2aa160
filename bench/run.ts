// Runs benchmarks: `npm run bench`, `npm run bench -- small-infer --rounds 3`, `npm run bench -- --list`. It writes
// nothing unless told to `--accept`: then the figures go to bench/results.json and into docs/internals/benchmarks.md.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { acceptFigures } from './accepted-figures.ts'
import { isMet, type Bench, type Figure } from './bench.ts'
import { pinningText } from './pinning.ts'

const usage = `npm run bench -- [name …] [flags]

  --list         the benchmarks and what they measure
  --rounds N     how often each subject is measured; medians count (5)
  --seconds S    how long one measurement of a load takes (1)
  --accept       keep the figures: bench/results.json and docs/internals/benchmarks.md

npm run bench -- suite --help: all of it at once, with charts, beside whatever there is to compare with
`

/** A benchmark of the whole server gives figures; one of a single part is a script that prints its own. */
type Entry = { readonly name: string; readonly file: string; readonly bench: Bench | null }

const findBenches = async (): Promise<Entry[]> => {
  const files = globSync('*.bench.ts', { cwd: import.meta.dirname }).toSorted()
  const entries: Entry[] = []
  for (const file of files) {
    const name = path.basename(file, '.bench.ts')
    const place = path.join(import.meta.dirname, file)
    const isOfServer = /^export const bench\b/m.test(readFileSync(place, 'utf8'))
    const module = isOfServer ? ((await import(place)) as { bench: Bench }) : null
    entries.push({ name, file, bench: module?.bench ?? null })
  }
  return entries
}

const figureText = (figure: Figure): string => {
  const value = `${figure.value.toFixed(2)} ${figure.unit}`.padStart(12)
  const target = figure.target === null ? '' : `  ${figure.target.kind} ${figure.target.value}`
  const verdict = figure.target === null ? '' : isMet(figure) ? ': met' : ': MISSED'
  return `  ${figure.what.padEnd(62)}${value}${target}${verdict}`
}

const runScript = async (file: string): Promise<void> => {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, file)], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${file} ended with code ${code}`)
}

const say = (line: string): void => void process.stdout.write(`${line}\n`)
if (process.argv[2] === 'suite') {
  const { runSuite } = await import('./suite.ts')
  process.exit(await runSuite(process.argv.slice(3), say))
}
const { values: flags, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    list: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
    accept: { type: 'boolean', default: false },
  },
})
const entries = await findBenches()
const unknown = names.find((name) => !entries.some((entry) => entry.name === name))
const settings = { rounds: Number(flags.rounds), secondsPerRun: Number(flags.seconds), say }

if (flags.help) {
  say(usage)
} else if (flags.list) {
  for (const { name, bench } of entries) say(`${name.padEnd(18)}${bench?.summary ?? 'prints its own figures'}`)
} else if (unknown !== undefined) {
  say(`there is no benchmark '${unknown}': ${entries.map((entry) => entry.name).join(', ')}`)
  process.exitCode = 1
} else if (!(settings.rounds >= 1 && settings.secondsPerRun > 0)) {
  say('--rounds must be at least 1 and --seconds more than 0')
  process.exitCode = 1
} else {
  const chosen = entries.filter((entry) => names.length === 0 || names.includes(entry.name))
  say(`${settings.rounds} rounds, medians; ${pinningText}`)
  for (const { name, file, bench } of chosen) {
    say(`\n${name}`)
    if (bench === null) {
      await runScript(file)
      continue
    }
    const figures = await bench.run(settings)
    say('')
    for (const figure of figures) say(figureText(figure))
    if (flags.accept) acceptFigures(name, figures, settings)
  }
}

// What a person at a terminal sees of a start: a line that counts the models while they load, then where to go.

import type { Cancel, Clock } from '../base/clock.ts'
import type { RunningServer, StartReport } from '../server.ts'
import { reachableHost } from './first-steps.ts'
import { modelRows } from './model-rows.ts'
import { printable } from './printable.ts'
import type { Paint, Terminal } from './terminal.ts'

type Models = StartReport['models']

const frames = ['|', '/', '-', '\\']
const frameNs = 120e6

/** Follows the models until the returned function is called. */
export function showProgress(
  clock: Clock,
  terminal: Terminal,
): {
  readonly follow: (index: () => Models) => void
  readonly end: () => void
} {
  let index: () => Models = () => []
  let turn = 0
  const draw = (): void => {
    terminal.status = `${frames[turn++ % frames.length] ?? ''} ${progressText(index())}`
  }
  let cancel: Cancel = () => undefined
  const goOn = (): void => {
    draw()
    cancel = clock.after(frameNs, goOn)
  }
  goOn()
  return {
    follow: (found) => {
      index = found
      draw()
    },
    end: () => {
      cancel()
      terminal.status = ''
      terminal.isStarting = false
    },
  }
}

export function progressText(models: Models): string {
  if (models.length === 0) return 'Starting'
  const ready = models.filter(({ state }) => state === 'READY')
  const loading = models.filter(({ state }) => state === 'LOADING').map(({ name }) => name)
  const done = `Loading models: ${ready.length} of ${models.length} ready`
  return loading.length === 0 ? done : `${done}, now ${loading.join(', ')}`
}

type Addresses = Pick<RunningServer, 'httpAddress' | 'grpcAddress' | 'metricsAddress' | 'furtherAddresses'>

type Screen = {
  readonly version: string
  readonly hasConsole: boolean
  readonly columns: number
  readonly paint: Paint
}

const indent = 2
/** More lines of names than this help nobody. */
const nameLines = 4

/** The addresses and the models, each line within the width of the terminal. */
export function startScreen(
  { httpAddress, grpcAddress, metricsAddress, furtherAddresses }: Addresses,
  models: Models,
  { version, hasConsole, columns, paint }: Screen,
): string {
  const rows: [name: string, text: string][] = []
  const at = (address: NonNullable<Addresses['httpAddress']>): string =>
    `${reachableHost(address.address)}:${address.port}`
  if (httpAddress !== null) {
    if (hasConsole) rows.push(['Console', `http://${at(httpAddress)}/console`])
    rows.push(['HTTP', `http://${at(httpAddress)}`])
  }
  if (grpcAddress !== null) rows.push(['gRPC', at(grpcAddress)])
  if (metricsAddress !== null) rows.push(['Metrics', `http://${at(metricsAddress)}/metrics`])
  for (const [title, address] of furtherAddresses) rows.push([title, at(address)])
  const found = modelRows(models)
  const ready = [...new Set(found.filter(([, , status]) => status === 'READY').map(([name]) => name))]
  rows.push(['Models', ready.length === 0 ? 'none is loaded' : ready.join(', ')])
  const width = Math.max(...rows.map(([name]) => name.length)) + indent
  const lines = rows.map(([name, text]) => {
    const body = wrapped(printable(text), columns - indent - width, nameLines)
    const head = ' '.repeat(indent) + paint('dim', name.padEnd(width))
    const colour = name === 'Console' ? (line: string) => paint('blue', line) : (line: string) => line
    return head + body.map(colour).join(`\n${' '.repeat(indent + width)}`)
  })
  for (const [name, model, status] of found) {
    if (status === 'READY' || status === 'UNAVAILABLE') continue
    const text = wrapped(printable(`${name} ${model} does not serve: ${status.replace(/^UNAVAILABLE: /, '')}`), columns - indent - width, Infinity) // prettier-ignore
    lines.push(' '.repeat(indent) + paint('red', 'Failed'.padEnd(width)) + text.join(`\n${' '.repeat(indent + width)}`))
  }
  const title = `${paint('bold', `Galatea ${version}`)} ${paint('green', 'serves')}`
  return `\n${title}\n\n${lines.join('\n')}\n`
}

/** Lines of at most this width, broken between words where there is a space. */
export function wrapped(text: string, width: number, mostLines: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(/[ \n]+/)) {
    const longer = line === '' ? word : `${line} ${word}`
    if (longer.length <= width) {
      line = longer
      continue
    }
    if (line !== '') lines.push(line)
    line = word
    for (; line.length > width; line = line.slice(width)) lines.push(line.slice(0, width))
  }
  lines.push(line)
  if (lines.length <= mostLines) return lines
  const kept = lines.slice(0, mostLines)
  const rest = lines.slice(mostLines).join(' ').split(' ').length
  return [...kept.slice(0, -1), ...wrapped(`${kept.at(-1) ?? ''} and ${rest} more`, width, Infinity)]
}

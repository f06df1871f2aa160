// What a model answered, in the form that says most: bars for scores, text for text, a table for the rest.

import type { JSX } from 'preact'
import type { OutputTensor } from '../client/web.ts'

const mostBars = 10
const mostCells = 400
const mostText = 20_000

type Bar = { readonly name: string; readonly value: number }

export function OutputView({
  output,
  isClassified,
}: {
  readonly output: OutputTensor
  readonly isClassified: boolean
}): JSX.Element {
  return (
    <section class="output" aria-label={`Output ${output.name}`}>
      <h3>
        {output.name}{' '}
        <span class="soft">{isClassified ? 'best classes' : `${output.dataType} [${output.shape.join(', ')}]`}</span>
      </h3>
      {isClassified ? <Bars bars={classBars(output)} /> : <Values output={output} />}
    </section>
  )
}

const classBars = (output: OutputTensor): Bar[] =>
  (output.classes()[0] ?? []).map(({ value, index, label }) => ({
    name: label === null || label === '' ? String(index) : label,
    value,
  }))

function Values({ output }: { readonly output: OutputTensor }): JSX.Element {
  if (output.dataType === 'BYTES')
    return (
      <pre class="answer-text" tabIndex={0}>
        {output.strings().join('\n').slice(0, mostText)}
      </pre>
    )
  const values = output.dataType === 'BOOL' ? output.booleans().map(Number) : output.numbers()
  const long = output.shape.filter((size) => size !== 1)
  const isScores = output.dataType.startsWith('FP') && long.length === 1 && values.length > 1 && values.length <= 1000
  return isScores ? <Bars bars={bestOf(values)} /> : <Grid values={values} width={output.shape.at(-1) ?? 1} />
}

const bestOf = (values: readonly number[]): Bar[] =>
  values
    .map((value, index) => ({ name: String(index), value }))
    .sort((a, b) => b.value - a.value)
    .slice(0, mostBars)

function Bars({ bars }: { readonly bars: readonly Bar[] }): JSX.Element {
  const values = bars.map(({ value }) => value)
  const isShare = values.every((value) => value >= 0 && value <= 1)
  const top = isShare ? 1 : Math.max(1e-9, ...values.map(Math.abs))
  return (
    <ol class="bars">
      {bars.map(({ name, value }, i) => (
        <li key={name} class={i === 0 ? 'best' : ''}>
          <span class="bar-name">{name}</span>
          <progress max={top} value={Math.abs(value)} aria-label={name} />
          <span class="number">{isShare ? `${(value * 100).toFixed(1)} %` : value.toPrecision(4)}</span>
        </li>
      ))}
    </ol>
  )
}

function Grid({ values, width }: { readonly values: readonly number[]; readonly width: number }): JSX.Element {
  const columns = Math.max(1, Math.min(width, 16))
  const shown = values.slice(0, mostCells)
  const rows = Array.from({ length: Math.ceil(shown.length / columns) }, (_, i) =>
    shown.slice(i * columns, (i + 1) * columns),
  )
  return (
    <div class="table" role="region" aria-label="Values" tabIndex={0}>
      <table class="grid">
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((value, j) => (
                <td key={j} class="number">
                  {Number.isInteger(value) ? value : value.toPrecision(4)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {values.length > mostCells ? <p class="soft">{values.length - mostCells} more values are not shown.</p> : null}
    </div>
  )
}

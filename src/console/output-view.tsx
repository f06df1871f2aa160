// What a model answered, in the form that says most: bars for scores, text for text, pictures, sound, a table for the rest.

import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { OutputTensor } from '../client/web.ts'
import { Choices } from './parts.tsx'
import { firstElement, formsOf, mediaOf, pictureLayout, rgbaOf, wavOf, type OutputForm } from './output-kinds.ts'

const mostBars = 10
const mostCells = 400
const mostText = 20_000

type Bar = { readonly name: string; readonly value: number }
type OutputProps = { readonly output: OutputTensor }

const formNames: Readonly<Record<OutputForm, string>> = {
  bars: 'bars',
  text: 'text',
  image: 'picture',
  sound: 'sound',
  table: 'table',
}

const viewOf: Readonly<Record<OutputForm, (props: OutputProps) => JSX.Element>> = {
  bars: ({ output }) => <Bars bars={bestOf(Array.from(output.float32()))} />,
  text: ({ output }) => (
    <pre class="answer-text" tabIndex={0}>
      {output.strings().join('\n').slice(0, mostText)}
    </pre>
  ),
  image: ({ output }) => (output.dataType === 'BYTES' ? <MediaFile output={output} /> : <Picture output={output} />),
  sound: ({ output }) => (output.dataType === 'BYTES' ? <MediaFile output={output} /> : <Sound output={output} />),
  table: Grid,
}

export function OutputView({
  output,
  isClassified,
}: {
  readonly output: OutputTensor
  readonly isClassified: boolean
}): JSX.Element {
  const forms = formsOf(output)
  const [form, setForm] = useState<OutputForm>(forms[0] ?? 'table')
  const View = viewOf[forms.includes(form) ? form : (forms[0] ?? 'table')]
  return (
    <section class="output" aria-label={`Output ${output.name}`}>
      <div class="card-head">
        <h3>
          {output.name}{' '}
          <span class="soft">{isClassified ? 'best classes' : `${output.dataType} [${output.shape.join(', ')}]`}</span>
        </h3>
        {isClassified || forms.length === 1 ? null : (
          <Choices
            label={`How to show ${output.name}`}
            names={forms.map((each) => [each, formNames[each]])}
            chosen={form}
            onChoose={setForm}
          />
        )}
      </div>
      {isClassified ? <Bars bars={classBars(output)} /> : <View output={output} />}
    </section>
  )
}

const classBars = (output: OutputTensor): Bar[] =>
  (output.classes()[0] ?? []).map(({ value, index, label }) => ({
    name: label === null || label === '' ? String(index) : label,
    value,
  }))

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

function Grid({ output }: OutputProps): JSX.Element {
  const columns = Math.max(1, Math.min(output.shape.at(-1) ?? 1, 16))
  const values = output.dataType === 'FP16' || output.dataType === 'BF16' ? output.float32() : output.data
  const shown = Array.from(values as ArrayLike<number | bigint>).slice(0, mostCells)
  const rows = Array.from({ length: Math.ceil(shown.length / columns) }, (_, i) =>
    shown.slice(i * columns, (i + 1) * columns),
  )
  return (
    <div class="table" role="region" aria-label={`Values of ${output.name}`} tabIndex={0}>
      <table class="grid">
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((value, j) => (
                <td key={j} class="number">
                  {typeof value === 'bigint' || Number.isInteger(value) ? String(value) : value.toPrecision(4)}
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

function Picture({ output }: OutputProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null)
  const layout = pictureLayout(output)
  // Before the browser paints: a canvas is never seen empty.
  useLayoutEffect(() => {
    const brush = canvas.current?.getContext('2d')
    if (layout === null || brush === null || brush === undefined) return
    brush.putImageData(new ImageData(rgbaOf(output.float32(), layout), layout.width, layout.height), 0, 0)
  }, [output])
  return (
    <canvas
      ref={canvas}
      class="preview answer-picture"
      width={layout?.width ?? 1}
      height={layout?.height ?? 1}
      role="img"
      aria-label={`Output ${output.name} as a picture`}
    />
  )
}

const usualRate = 16_000
const leastRate = 3000

function Sound({ output }: OutputProps): JSX.Element {
  const [rate, setRate] = useState(usualRate)
  const isWhole = output.dataType === 'INT16'
  const samples = output.data as ArrayLike<number>
  const url = useBlobUrl(() => new Blob([wavOf(samples, rate, isWhole)], { type: 'audio/wav' }), [output, rate])
  return (
    <div class="stack">
      <audio controls src={url} aria-label={`Output ${output.name} as sound`} />
      <label class="inline soft">
        samples/s
        <input
          type="number"
          class="short"
          value={rate}
          onInput={(event) => setRate(Math.max(leastRate, Number(event.currentTarget.value) || usualRate))}
        />
        {`${(samples.length / rate).toFixed(2)} s`}
      </label>
    </div>
  )
}

/** A picture or a sound that came as a whole file. */
function MediaFile({ output }: OutputProps): JSX.Element {
  const file = firstElement(output.bytes)
  const media = mediaOf(file)
  const url = useBlobUrl(() => new Blob([file.slice()], { type: media?.type ?? 'application/octet-stream' }), [output])
  return media?.form === 'sound' ? (
    <audio controls src={url} aria-label={`Output ${output.name} as sound`} />
  ) : (
    <img class="answer-picture" src={url} alt={`Output ${output.name} as a picture`} />
  )
}

/** An address of the bytes within this page, given back when the bytes change or the element goes. */
function useBlobUrl(make: () => Blob, reasons: readonly unknown[]): string {
  const [url, setUrl] = useState('')
  useEffect(() => {
    const made = URL.createObjectURL(make())
    setUrl(made)
    return () => URL.revokeObjectURL(made)
  }, reasons)
  return url
}

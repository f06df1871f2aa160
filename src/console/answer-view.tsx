import type { JSX } from 'preact'
import type { InferResult } from '../client/web.ts'
import { msText } from './figure-text.ts'
import { OutputView } from './output-view.tsx'
import { Notice } from './parts.tsx'
import type { Answer } from './playground-run.ts'

export function AnswerView({ answer }: { readonly answer: Answer }): JSX.Element {
  if (answer.kind === 'error') return <Notice tone="bad">{answer.message}</Notice>
  if (answer.kind === 'stream') return <StreamView {...answer} />
  return answer.kind === 'sequence' ? <SequenceView {...answer} /> : <ResultView {...answer} />
}

const StreamView = ({ text, firstMs, totalMs }: Extract<Answer, { kind: 'stream' }>): JSX.Element => (
  <>
    <p class="soft">
      first piece after {msText(firstMs)}
      {totalMs === null ? ', still coming' : `, all of it after ${msText(totalMs)}`}
    </p>
    <pre class="answer-text" tabIndex={0}>
      {text}
    </pre>
  </>
)

const ResultView = ({ result, times, classified }: Extract<Answer, { kind: 'result' }>): JSX.Element => (
  <>
    <p class="soft">
      version {result.modelVersion} · <TimesText times={times} />
    </p>
    {times.length < leastForHistogram ? null : <TimeHistogram times={times} />}
    {result.outputs.map((output) => (
      <OutputView key={output.name} output={output} isClassified={classified.has(output.name)} />
    ))}
  </>
)

function TimesText({ times }: { readonly times: readonly number[] }): JSX.Element {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): string =>
    msText(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0)
  return (
    <>
      {times.length === 1 ? at(0) : `${times.length} times: fastest ${at(0)}, half below ${at(0.5)}, slowest ${at(1)}`}
    </>
  )
}

const leastForHistogram = 10
const bins = 24
const [plotWidth, plotHeight] = [480, 72]

/** How many requests took how long. The line above says the figures. */
function TimeHistogram({ times }: { readonly times: readonly number[] }): JSX.Element {
  const [low, high] = [Math.min(...times), Math.max(...times)]
  const counts = Array.from({ length: bins }, () => 0)
  for (const time of times) {
    const bin = Math.min(bins - 1, Math.floor(((time - low) / Math.max(1e-9, high - low)) * bins))
    counts[bin] = (counts[bin] ?? 0) + 1
  }
  const top = Math.max(...counts)
  const width = plotWidth / bins
  return (
    <figure class="histogram">
      <svg viewBox={`0 0 ${plotWidth} ${plotHeight}`} role="img" aria-label="How many requests took how long">
        {counts.map((count, i) => {
          const tall = (count / top) * plotHeight
          return <rect key={i} x={i * width + 1} y={plotHeight - tall} width={width - 2} height={tall} rx="2" />
        })}
      </svg>
      <figcaption class="soft">
        <span>{msText(low)}</span>
        <span>{msText(high)}</span>
      </figcaption>
    </figure>
  )
}

type SequenceProps = Extract<Answer, { kind: 'sequence' }>

function SequenceView({ results, pieceSecs, totalMs }: SequenceProps): JSX.Element {
  const last = results.at(-1)
  if (last === undefined) return <Notice tone="warn">The sound is empty: nothing was sent.</Notice>
  const single = last.outputs.filter(({ dataType, shape }) => dataType !== 'BYTES' && shape.every((size) => size === 1))
  return (
    <>
      <p class="soft">
        version {last.modelVersion} · {results.length} requests of one sequence in {msText(totalMs)}
      </p>
      {results.length < 2
        ? null
        : single.map(({ name }) => <OverTime key={name} name={name} results={results} pieceSecs={pieceSecs} />)}
      {last.outputs.map((output) => (
        <OutputView key={output.name} output={output} isClassified={false} />
      ))}
    </>
  )
}

/** One number of each answer, from the first to the last. */
function OverTime({
  name,
  results,
  pieceSecs,
}: {
  readonly name: string
  readonly results: readonly InferResult[]
  readonly pieceSecs: number | null
}): JSX.Element {
  const values = results.map((result) => result.output(name).float32()[0] ?? 0)
  const [low, high] = [Math.min(0, ...values), Math.max(...values)]
  const top = high <= 1 && low >= 0 ? 1 : Math.max(1e-9, high - low)
  const points = values.map((value, i) => {
    const x = values.length < 2 ? 0 : (i / (values.length - 1)) * plotWidth
    return `${x.toFixed(1)},${(plotHeight - ((value - low) / top) * plotHeight).toFixed(1)}`
  })
  const highest = values.indexOf(high)
  const at = (i: number): string => (pieceSecs === null ? `request ${i + 1}` : `${(i * pieceSecs).toFixed(2)} s`)
  return (
    <figure class="histogram" aria-label={`${name} over the sequence`}>
      <svg viewBox={`0 -2 ${plotWidth} ${plotHeight + 4}`} preserveAspectRatio="none" aria-hidden="true">
        <polyline points={points.join(' ')} />
      </svg>
      <figcaption class="soft">
        <span>
          {name} from {at(0)}
        </span>
        <span>
          highest {high.toPrecision(3)} at {at(highest)}
        </span>
        <span>{at(values.length - 1)}</span>
      </figcaption>
    </figure>
  )
}

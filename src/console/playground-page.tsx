import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { InferResult, ModelConfig, ModelMetadata, NamedInput } from '../client/web.ts'
import { curlSnippet, pythonSnippet, typescriptSnippet, type SnippetCall } from './call-snippets.ts'
import { msText } from './figure-text.ts'
import { inputSlots, shapeFor, type Filling, type InputSlot } from './input-kinds.ts'
import { widgetOf, type Filled } from './input-widgets.tsx'
import { models } from './live-store.ts'
import { OutputView } from './output-view.tsx'
import { Card, Code, Empty, Notice, PageHead, Tabs, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { client, messageOf } from './server-api.ts'

export function PlaygroundPage({ model, version }: { readonly model: string; readonly version: string }): JSX.Element {
  const ready = (models.value ?? []).filter(({ state }) => state === 'READY')
  const names = [...new Set(ready.map(({ name }) => name))].sort()
  return (
    <>
      <PageHead title="Playground">Fill the inputs of a model and see what it answers.</PageHead>
      <div class="toolbar">
        <label class="field">
          <span>Model</span>
          <select value={model} onChange={(event) => (location.href = linkTo('playground', event.currentTarget.value))}>
            <option value="">Choose a model</option>
            {names.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label class="field">
          <span>Version</span>
          <select
            value={version}
            disabled={model === ''}
            onChange={(event) => {
              const chosen = event.currentTarget.value
              location.href = chosen === '' ? linkTo('playground', model) : linkTo('playground', model, chosen)
            }}
          >
            <option value="">as the server chooses</option>
            {ready
              .filter(({ name }) => name === model)
              .map((entry) => (
                <option key={entry.version} value={entry.version}>
                  {entry.version}
                </option>
              ))}
          </select>
        </label>
      </div>
      {model === '' ? (
        <Empty>{names.length === 0 ? 'No model is ready.' : 'Choose a model.'}</Empty>
      ) : (
        <Described model={model} version={version} />
      )}
    </>
  )
}

type Description = { readonly metadata: ModelMetadata; readonly config: ModelConfig }

function Described({ model, version }: { readonly model: string; readonly version: string }): JSX.Element {
  const described = useLoaded<Description>(`${model}/${version}`, async () => {
    const options = version === '' ? {} : { version }
    const [metadata, config] = await Promise.all([
      client.modelMetadata(model, options),
      client.modelConfig(model, options),
    ])
    return { metadata, config }
  })
  if (described.error !== '') return <Notice tone="bad">{described.error}</Notice>
  if (described.value === null) return <Empty>Asking the server…</Empty>
  return <Form key={`${model}/${version}`} {...described.value} version={version} />
}

type Answer =
  | {
      readonly kind: 'result'
      readonly result: InferResult
      readonly times: readonly number[]
      readonly classified: ReadonlySet<string>
    }
  | { readonly kind: 'stream'; readonly text: string; readonly firstMs: number | null; readonly totalMs: number | null }
  | { readonly kind: 'error'; readonly message: string }

const mostRepeats = 1000

function Form({ metadata, config, version }: Description & { readonly version: string }): JSX.Element {
  const slots = inputSlots(metadata, config)
  const isDecoupled = (config['model_transaction_policy'] as { decoupled?: boolean } | undefined)?.decoupled === true
  const [filled, setFilled] = useState<Readonly<Record<string, Filled>>>({})
  // Of inputs that may be left out the first is sent.
  const firstOptional = slots.every(({ isOptional }) => isOptional) ? slots[0]?.name : undefined
  const [left, setLeft] = useState<ReadonlySet<string>>(
    new Set(slots.filter(({ isOptional, name }) => isOptional && name !== firstOptional).map(({ name }) => name)),
  )
  const [repeats, setRepeats] = useState(1)
  const [answer, setAnswer] = useState<Answer | null>(null)
  const [isBusy, setBusy] = useState(false)
  const sent = slots.filter(({ name }) => !left.has(name))
  const problem = sent.map(({ name }) => filled[name]).map((each) => (each !== undefined && 'problem' in each ? each.problem : '')).find((text) => text !== '') // prettier-ignore
  const run = async (): Promise<void> => {
    setBusy(true)
    try {
      if (isDecoupled) await stream(metadata.name, version, sent, filled, setAnswer)
      else setAnswer(await infer(metadata.name, version, config, inputsOf(sent, filled), repeats))
    } catch (reason) {
      setAnswer({ kind: 'error', message: messageOf(reason) })
    }
    setBusy(false)
  }
  return (
    <>
      <div class="columns even">
        <Card title="Inputs">
          {slots.length === 0 ? <Empty>This model has no inputs.</Empty> : null}
          {slots.map((slot) => (
            <SlotForm
              key={slot.name}
              slot={slot}
              isSent={!left.has(slot.name)}
              onSent={(isSent) => setLeft(withName(left, slot.name, !isSent))}
              onFilled={(value) => setFilled((old) => ({ ...old, [slot.name]: value }))}
            />
          ))}
          <div class="run">
            <button type="button" class="main" disabled={isBusy || problem !== undefined} onClick={() => void run()}>
              {isBusy ? 'Running…' : 'Run'}
            </button>
            {isDecoupled ? null : (
              <label class="inline soft">
                times
                <input
                  type="number"
                  class="short"
                  min={1}
                  max={mostRepeats}
                  value={repeats}
                  onInput={(event) =>
                    setRepeats(Math.min(mostRepeats, Math.max(1, Number(event.currentTarget.value) || 1)))
                  }
                />
              </label>
            )}
            <span class="soft" role="status">
              {problem ?? ''}
            </span>
          </div>
        </Card>
        <Card title="Answer">
          <div aria-live="polite" class="answer">
            {answer === null ? <Empty>Nothing has been run yet.</Empty> : <AnswerView answer={answer} />}
          </div>
        </Card>
      </div>
      <Card title="The same call">
        <Snippets call={snippetCall(metadata.name, version, sent, filled, isDecoupled)} />
      </Card>
    </>
  )
}

const withName = (names: ReadonlySet<string>, name: string, isIn: boolean): ReadonlySet<string> => {
  const next = new Set(names)
  if (isIn) next.add(name)
  else next.delete(name)
  return next
}

const fillingNames: Readonly<Record<Filling, string>> = {
  drawing: 'draw',
  picture: 'picture',
  sound: 'sound',
  numbers: 'numbers',
  text: 'text',
  json: 'JSON',
  file: 'file',
}

function SlotForm({
  slot,
  isSent,
  onSent,
  onFilled,
}: {
  readonly slot: InputSlot
  readonly isSent: boolean
  readonly onSent: (isSent: boolean) => void
  readonly onFilled: (filled: Filled) => void
}): JSX.Element {
  const [filling, setFilling] = useState<Filling>(slot.fillings[0] ?? 'json')
  const Widget = widgetOf[filling]
  return (
    <fieldset class="slot">
      <legend>
        {slot.name}{' '}
        <span class="soft">
          {slot.dataType} [{slot.shape.join(', ')}]
        </span>
      </legend>
      <div class="inline">
        {slot.isOptional ? (
          <label class="inline">
            <input type="checkbox" checked={isSent} onChange={(event) => onSent(event.currentTarget.checked)} />
            send this input
          </label>
        ) : null}
        {isSent ? (
          <div class="choices" role="radiogroup" aria-label={`How to fill ${slot.name}`}>
            {slot.fillings.map((each) => (
              <label key={each} class={each === filling ? 'chosen' : ''}>
                <input
                  type="radio"
                  name={`filling-${slot.name}`}
                  checked={each === filling}
                  onChange={() => setFilling(each)}
                />
                {fillingNames[each]}
              </label>
            ))}
          </div>
        ) : null}
      </div>
      {isSent ? <Widget key={filling} slot={slot} onFilled={onFilled} /> : null}
    </fieldset>
  )
}

function inputsOf(slots: readonly InputSlot[], filled: Readonly<Record<string, Filled>>): NamedInput[] {
  return slots.map((slot) => {
    const value = filled[slot.name]
    const dataType = slot.dataType as 'FP32'
    if (value === undefined || 'problem' in value) throw new Error(`input ${slot.name} is not filled`)
    if ('bytes' in value) {
      const sizes: Readonly<Record<string, number>> = { FP64: 8, INT64: 8, UINT64: 8, FP32: 4, INT32: 4, UINT32: 4, FP16: 2, BF16: 2, INT16: 2, UINT16: 2 } // prettier-ignore
      return {
        name: slot.name,
        dataType,
        bytes: value.bytes,
        shape: shapeFor(slot, value.bytes.length / (sizes[slot.dataType] ?? 1)),
      }
    }
    const shape = shapeOfFilled(slot, value)
    return { name: slot.name, dataType, data: value.values as number[], shape }
  })
}

function shapeOfFilled(
  slot: InputSlot,
  { values, shape }: { readonly values: readonly unknown[]; readonly shape?: readonly number[] },
): readonly number[] {
  const fits =
    shape !== undefined &&
    shape.length === slot.shape.length &&
    shape.reduce((product, size) => product * size, 1) === values.length
  return fits ? shape : shapeFor(slot, values.length)
}

const classesShown = 10

async function infer(
  model: string,
  version: string,
  config: ModelConfig,
  inputs: NamedInput[],
  repeats: number,
): Promise<Answer> {
  const labelled = config.output.filter(
    (output) => typeof output['label_filename'] === 'string' && output['label_filename'] !== '',
  )
  const classified = new Set(labelled.map(({ name }) => name))
  const outputs = config.output.map(({ name }) =>
    classified.has(name) ? { name, classification: classesShown } : name,
  )
  const options = { ...(version === '' ? {} : { version }), ...(classified.size === 0 ? {} : { outputs }) }
  const times: number[] = []
  let result: InferResult | null = null
  for (let i = 0; i < repeats; i++) {
    const started = performance.now()
    result = await client.infer(model, inputs, options)
    times.push(performance.now() - started)
  }
  return { kind: 'result', result: result as InferResult, times, classified }
}

async function stream(
  model: string,
  version: string,
  slots: readonly InputSlot[],
  filled: Readonly<Record<string, Filled>>,
  show: (answer: Answer) => void,
): Promise<void> {
  const fields: Record<string, unknown> = {}
  for (const slot of slots) {
    const value = filled[slot.name]
    if (value === undefined || !('values' in value)) throw new Error(`a stream takes text or numbers for ${slot.name}`)
    fields[slot.name] = value.values.length === 1 ? value.values[0] : value.values
  }
  const started = performance.now()
  let text = ''
  let firstMs: number | null = null
  show({ kind: 'stream', text, firstMs, totalMs: null })
  for await (const piece of client.generateStream(model, fields, version === '' ? {} : { version })) {
    firstMs ??= performance.now() - started
    const { model_name: _name, model_version: _version, id: _id, ...outputs } = piece
    const values = Object.values(outputs)
    text += values.every((each) => typeof each === 'string') ? `${values.join(' ')} ` : `${JSON.stringify(outputs)}\n`
    show({ kind: 'stream', text, firstMs, totalMs: null })
  }
  show({ kind: 'stream', text, firstMs, totalMs: performance.now() - started })
}

function AnswerView({ answer }: { readonly answer: Answer }): JSX.Element {
  if (answer.kind === 'error') return <Notice tone="bad">{answer.message}</Notice>
  if (answer.kind === 'stream') {
    return (
      <>
        <p class="soft">
          first piece after {msText(answer.firstMs)}
          {answer.totalMs === null ? ', still coming' : `, all of it after ${msText(answer.totalMs)}`}
        </p>
        <pre class="answer-text" tabIndex={0}>
          {answer.text}
        </pre>
      </>
    )
  }
  const { result, times, classified } = answer
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
  return (
    <>
      <p class="soft">
        version {result.modelVersion} ·{' '}
        {times.length === 1
          ? msText(times[0])
          : `${times.length} times: fastest ${msText(at(0))}, half below ${msText(at(0.5))}, slowest ${msText(at(1))}`}
      </p>
      {result.outputs.map((output) => (
        <OutputView key={output.name} output={output} isClassified={classified.has(output.name)} />
      ))}
    </>
  )
}

function snippetCall(
  model: string,
  version: string,
  slots: readonly InputSlot[],
  filled: Readonly<Record<string, Filled>>,
  isDecoupled: boolean,
): SnippetCall {
  const inputs = slots.map((slot) => {
    const value = filled[slot.name]
    const hasValues = value !== undefined && 'values' in value
    const values = hasValues ? value.values.map((each) => (typeof each === 'bigint' ? Number(each) : each instanceof Uint8Array ? '(the file)' : each)) : null // prettier-ignore
    return {
      name: slot.name,
      dataType: slot.dataType,
      shape: hasValues ? shapeOfFilled(slot, value) : slot.shape,
      values,
    }
  })
  return { origin: location.origin, model, version, inputs, isDecoupled }
}

const Snippets = ({ call }: { readonly call: SnippetCall }): JSX.Element => (
  <Tabs
    label="Language"
    tabs={[
      ['curl', () => <Code>{curlSnippet(call)}</Code>],
      ['Python', () => <Code>{pythonSnippet(call)}</Code>],
      ['TypeScript', () => <Code>{typescriptSnippet(call)}</Code>],
    ]}
  />
)

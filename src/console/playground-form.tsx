import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ModelConfig, ModelMetadata } from '../client/web.ts'
import { differencesOf } from './answer-difference.ts'
import { AnswerView } from './answer-view.tsx'
import { curlSnippet, grpcSnippet, pythonSnippet, typescriptSnippet, type SnippetCall } from './call-snippets.ts'
import type { Filling, InputHint } from './input-hints.ts'
import { inputSlots, type Filled, type InputSlot } from './input-kinds.ts'
import { widgetOf } from './input-widgets.tsx'
import { Badge, Card, Choices, Code, Empty, Tabs } from './parts.tsx'
import { isDecoupled, runModel, shapeOfFilled, type Answer, type Call, type Fillings } from './playground-run.ts'
import { accessKey, messageOf } from './server-api.ts'

const mostRepeats = 1000

type FormProps = {
  readonly metadata: ModelMetadata
  readonly config: ModelConfig
  readonly hints: ReadonlyMap<string, InputHint>
  readonly version: string
  /** A second version that gets the same inputs; '' for none. */
  readonly other: string
}

export function PlaygroundForm({ metadata, config, hints, version, other }: FormProps): JSX.Element {
  const slots = inputSlots(metadata, config, hints)
  const [filled, setFilled] = useState<Fillings>({})
  // Of inputs that may be left out the first is sent.
  const firstOptional = slots.every(({ isOptional }) => isOptional) ? slots[0]?.name : undefined
  const [left, setLeft] = useState<ReadonlySet<string>>(
    new Set(slots.filter(({ isOptional, name }) => isOptional && name !== firstOptional).map(({ name }) => name)),
  )
  const [repeats, setRepeats] = useState(1)
  const [answers, setAnswers] = useState<readonly (Answer | null)[]>([])
  const [isBusy, setBusy] = useState(false)
  const sent = slots.filter(({ name }) => !left.has(name))
  const problem = sent.map(({ name }) => problemOf(filled[name])).find((text) => text !== '')
  const versions = other === '' ? [version] : [version, other]
  const call: Call = { model: metadata.name, version, config, slots: sent, filled, repeats }
  const run = async (): Promise<void> => {
    setBusy(true)
    setAnswers([])
    const runOn = async (each: string, i: number): Promise<void> => {
      const show = (answer: Answer): void => setAnswers((old) => versions.map((_, j) => (i === j ? answer : (old[j] ?? null)))) // prettier-ignore
      await runModel({ ...call, version: each }, show).catch((reason: unknown) =>
        show({ kind: 'error', message: messageOf(reason) }),
      )
    }
    await Promise.all(versions.map(runOn))
    setBusy(false)
  }
  return (
    <>
      <div class={other === '' ? 'columns even' : 'columns three'}>
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
            {isDecoupled(config) ? null : <Repeats value={repeats} onValue={setRepeats} />}
            <span class="soft" role="status">
              {problem ?? ''}
            </span>
          </div>
        </Card>
        {versions.map((each, i) => (
          <Card
            key={i}
            title={other === '' ? 'Answer' : `Answer of ${each === '' ? 'the chosen version' : `version ${each}`}`}
          >
            <div aria-live="polite" class="answer">
              {(answers[i] ?? null) === null ? (
                <Empty>{isBusy ? 'Running…' : 'Nothing has been run yet.'}</Empty>
              ) : (
                <AnswerView answer={answers[i] as Answer} />
              )}
            </div>
          </Card>
        ))}
      </div>
      {other === '' ? null : <Differences answers={answers} />}
      <Card title="The same call">
        <Snippets call={snippetCall(call)} />
      </Card>
    </>
  )
}

const problemOf = (filled: Filled | undefined): string =>
  filled !== undefined && 'problem' in filled ? filled.problem : ''

const withName = (names: ReadonlySet<string>, name: string, isIn: boolean): ReadonlySet<string> => {
  const next = new Set(names)
  if (isIn) next.add(name)
  else next.delete(name)
  return next
}

const Repeats = ({
  value,
  onValue,
}: {
  readonly value: number
  readonly onValue: (value: number) => void
}): JSX.Element => (
  <label class="inline soft">
    <input
      type="number"
      class="short"
      min={1}
      max={mostRepeats}
      value={value}
      onInput={(event) => onValue(Math.min(mostRepeats, Math.max(1, Number(event.currentTarget.value) || 1)))}
    />
    times
  </label>
)

function Differences({ answers }: { readonly answers: readonly (Answer | null)[] }): JSX.Element | null {
  const found = differencesOf(answers[0] ?? null, answers[1] ?? null)
  if (found.length === 0) return null
  return (
    <Card title="Difference">
      <ul class="differences" aria-live="polite">
        {found.map(({ name, isSame, text }) => (
          <li key={name}>
            <b>{name}</b> <Badge tone={isSame ? 'good' : 'warn'}>{text}</Badge>
          </li>
        ))}
      </ul>
    </Card>
  )
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
          <Choices
            label={`How to fill ${slot.name}`}
            names={slot.fillings.map((each) => [each, fillingNames[each]])}
            chosen={filling}
            onChoose={setFilling}
          />
        ) : null}
      </div>
      {isSent ? <Widget key={filling} slot={slot} onFilled={onFilled} /> : null}
    </fieldset>
  )
}

function snippetCall({ model, version, slots, filled, config }: Call): SnippetCall {
  const inputs = slots.map((slot) => {
    const value = filled[slot.name]
    const hasValues = value !== undefined && 'values' in value
    const values = hasValues ? value.values.map((each) => (typeof each === 'bigint' ? Number(each) : each instanceof Uint8Array ? '(the file)' : each)) : null // prettier-ignore
    return {
      name: slot.name,
      dataType: slot.dataType,
      shape: hasValues ? shapeOfFilled(slot, value) : slot.shape.map((size) => (size < 0 ? 1 : size)),
      values,
    }
  })
  return {
    origin: location.origin,
    model,
    version,
    inputs,
    isDecoupled: isDecoupled(config),
    hasKey: accessKey.value !== '',
  }
}

const Snippets = ({ call }: { readonly call: SnippetCall }): JSX.Element => (
  <Tabs
    label="Language"
    tabs={[
      ['curl', () => <Code>{curlSnippet(call)}</Code>],
      ['Python', () => <Code>{pythonSnippet(call)}</Code>],
      ['TypeScript', () => <Code>{typescriptSnippet(call)}</Code>],
      ['gRPC', () => <Code>{grpcSnippet(call)}</Code>],
    ]}
  />
)

import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { ModelConfig, ModelMetadata } from '../client/web.ts'
import { chatModels, findChatModels } from './chat-call.ts'
import { ChatView } from './chat-view.tsx'
import { may } from './caller-rights.ts'
import { inputHints, type InputHint } from './input-hints.ts'
import { models } from './live-store.ts'
import { Choices, Empty, Notice, PageHead, useLoaded } from './parts.tsx'
import { PlaygroundForm } from './playground-form.tsx'
import { linkTo } from './route.ts'
import { call, client } from './server-api.ts'

export function PlaygroundPage({ model, version }: { readonly model: string; readonly version: string }): JSX.Element {
  const ready = (models.value ?? []).filter(({ state }) => state === 'READY')
  const talking = chatModels.value ?? new Set<string>()
  const names = [...new Set([...ready.map(({ name }) => name), ...talking])].sort()
  const versions = ready.filter(({ name }) => name === model).map((entry) => entry.version)
  const [other, setOther] = useState('')
  useEffect(() => void findChatModels(), [])
  // Adapters of a language model have names of their own, which are no models of a repository.
  const isOnlyTalking = talking.has(model) && versions.length === 0
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
        {isOnlyTalking ? null : (
          <VersionChoice
            title="Version"
            value={version}
            none="as the server chooses"
            versions={versions}
            isDisabled={model === ''}
            onChoose={(chosen) => {
              location.href = chosen === '' ? linkTo('playground', model) : linkTo('playground', model, chosen)
            }}
          />
        )}
        {versions.length > 1 ? (
          <VersionChoice
            title="Beside it"
            value={other}
            none="no other version"
            versions={versions.filter((each) => each !== version)}
            isDisabled={false}
            onChoose={setOther}
          />
        ) : null}
      </div>
      {model !== '' && chatModels.value === null ? (
        <Empty>Asking the server…</Empty>
      ) : model === '' ? (
        <Empty>{names.length === 0 ? 'No model is ready.' : 'Choose a model.'}</Empty>
      ) : isOnlyTalking ? (
        <ChatView key={model} model={model} />
      ) : (
        <Described
          model={model}
          version={version}
          other={versions.includes(other) ? other : ''}
          isTalking={talking.has(model)}
        />
      )}
    </>
  )
}

const VersionChoice = ({
  title,
  value,
  none,
  versions,
  isDisabled,
  onChoose,
}: {
  readonly title: string
  readonly value: string
  readonly none: string
  readonly versions: readonly string[]
  readonly isDisabled: boolean
  readonly onChoose: (version: string) => void
}): JSX.Element => (
  <label class="field">
    <span>{title}</span>
    <select value={value} disabled={isDisabled} onChange={(event) => onChoose(event.currentTarget.value)}>
      <option value="">{none}</option>
      {versions.map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  </label>
)

type Description = {
  readonly metadata: ModelMetadata
  readonly config: ModelConfig
  readonly hints: ReadonlyMap<string, InputHint>
}

/** What galatea.yaml has beside the keys of the registry. Not everybody may read it, and the form works without it. */
async function extraOf(model: string): Promise<unknown> {
  try {
    const entry = (await call(`/v2/models/${encodeURIComponent(model)}/registry`)) as { readonly extra?: unknown }
    return entry.extra
  } catch {
    return null
  }
}

function Described({
  model,
  version,
  other,
  isTalking,
}: {
  readonly model: string
  readonly version: string
  readonly other: string
  /** The model is in the list of models that take text. */
  readonly isTalking: boolean
}): JSX.Element {
  const [way, setWay] = useState<'chat' | 'tensors'>('chat')
  const described = useLoaded<Description>(`${model}/${version}`, async () => {
    const options = version === '' ? {} : { version }
    const [metadata, config, extra] = await Promise.all([
      client.modelMetadata(model, options),
      client.modelConfig(model, options),
      may('model-repository') ? extraOf(model) : null,
    ])
    return { metadata, config, hints: inputHints(extra, config) }
  })
  if (described.error !== '') return <Notice tone="bad">{described.error}</Notice>
  if (described.value === null) return <Empty>Asking the server…</Empty>
  const form = <PlaygroundForm key={`${model}/${version}`} {...described.value} version={version} other={other} />
  // Models of embeddings take text too, and answer with numbers.
  const hasText = described.value.metadata.outputs.some(({ dataType }) => dataType === 'BYTES')
  if (!isTalking || !hasText) return form
  return (
    <>
      <div class="inline">
        <Choices
          label="How to use the model"
          names={[
            ['chat', 'chat'],
            ['tensors', 'tensors'],
          ]}
          chosen={way}
          onChoose={setWay}
        />
      </div>
      {way === 'chat' ? <ChatView key={model} model={model} /> : form}
    </>
  )
}

// The server's OpenAPI document, with a form for each call.

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { msText } from './figure-text.ts'
import { Code, Empty, Notice, PageHead, useLoaded } from './parts.tsx'
import { call, messageOf, rawCall } from './server-api.ts'

type Schema = { readonly $ref?: string; readonly [key: string]: unknown }
type Parameter = {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
}
type Operation = {
  readonly operationId: string
  readonly summary: string
  readonly tags: readonly string[]
  readonly parameters?: readonly Parameter[]
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: Schema }>> }
  readonly responses: Readonly<Record<string, { readonly description: string }>>
}
type Document = {
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> }
}
type Call = {
  readonly method: string
  readonly path: string
  readonly operation: Operation
  readonly parameters: readonly Parameter[]
}

const feeds = ['/v2/live', '/v2/rollouts/{rollout}/events']

export function DocsPage(): JSX.Element {
  const [text, setText] = useState('')
  const found = useLoaded('openapi', async () => (await call('/v2/openapi.json')) as Document)
  if (found.value === null) {
    return (
      <>
        <PageHead title="API">{found.error === '' ? 'Reading the description…' : ''}</PageHead>
        {found.error === '' ? null : <Notice tone="bad">{found.error}</Notice>}
      </>
    )
  }
  const document = found.value
  const wanted = callsOf(document).filter(({ path, operation }) =>
    `${path} ${operation.summary}`.toLowerCase().includes(text.trim().toLowerCase()),
  )
  const groups = document.tags
    .map((tag) => ({ ...tag, calls: wanted.filter(({ operation }) => operation.tags[0] === tag.name) }))
    .filter(({ calls }) => calls.length > 0)
  return (
    <>
      <PageHead
        title="API"
        actions={
          <a class="button quiet" href="/v2/openapi.json" download="openapi.json">
            openapi.json
          </a>
        }
      >
        {document.info.description}
      </PageHead>
      <label class="field search-wide">
        <span>Search calls</span>
        <input type="search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      {groups.length === 0 ? <Empty>No call fits.</Empty> : null}
      {groups.map(({ name, description, calls }) => (
        <section key={name} class="card" aria-label={description}>
          <div class="card-head">
            <h2>{description}</h2>
            <span class="soft">
              {calls.length} {calls.length === 1 ? 'call' : 'calls'}
            </span>
          </div>
          {calls.map((each) => (
            <CallView key={`${each.method} ${each.path}`} call={each} document={document} />
          ))}
        </section>
      ))}
    </>
  )
}

function callsOf({ paths }: Document): Call[] {
  return Object.entries(paths).flatMap(([path, item]) => {
    const shared = (item['parameters'] ?? []) as readonly Parameter[]
    return Object.entries(item)
      .filter(([method]) => method !== 'parameters')
      .map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        operation: operation as Operation,
        parameters: [...shared, ...((operation as Operation).parameters ?? [])],
      }))
  })
}

function CallView({
  call: { method, path, operation, parameters },
  document,
}: {
  readonly call: Call
  readonly document: Document
}): JSX.Element {
  const [isOpen, setOpen] = useState(false)
  return (
    <details class="call" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class={`method ${method.toLowerCase()}`}>{method}</span>
        <code>{path}</code>
        <span class="soft">{operation.summary}</span>
      </summary>
      {isOpen ? (
        <CallForm method={method} path={path} operation={operation} parameters={parameters} document={document} />
      ) : null}
    </details>
  )
}

type Answer =
  | { readonly status: number; readonly ms: number; readonly type: string; readonly text: string }
  | { readonly error: string }

const mostText = 50_000

function CallForm({
  method,
  path,
  operation,
  parameters,
  document,
}: Call & { readonly document: Document }): JSX.Element {
  const schema = operation.requestBody?.content['application/json']?.schema
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const [body, setBody] = useState(schema === undefined ? '' : JSON.stringify(example(schema, document, 0), null, 2))
  const [answer, setAnswer] = useState<Answer | null>(null)
  const [isBusy, setBusy] = useState(false)
  const shown = parameters.filter(({ in: place }) => place === 'path' || place === 'query')
  const isFeed = feeds.includes(path)
  const send = async (event: Event): Promise<void> => {
    event.preventDefault()
    setBusy(true)
    try {
      setAnswer(await rawCall(method, targetOf(path, shown, values), schema === undefined ? null : body))
    } catch (reason) {
      setAnswer({ error: messageOf(reason) })
    }
    setBusy(false)
  }
  return (
    <form class="call-form" onSubmit={(event) => void send(event)}>
      {shown.map(({ name, in: place, required = false, description = '' }) => (
        <label key={name} class="field">
          <span>
            {name}{' '}
            <span class="soft">
              {place === 'path' ? 'in the path' : `in the query${required ? '' : ', optional'}`} {description}
            </span>
          </span>
          <input
            required={place === 'path'}
            value={values[name] ?? ''}
            onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      {schema === undefined ? null : (
        <label class="field">
          <span>Body</span>
          <textarea
            rows={Math.min(16, body.split('\n').length + 1)}
            spellcheck={false}
            value={body}
            onInput={(event) => setBody(event.currentTarget.value)}
          />
        </label>
      )}
      <ul class="answers">
        {Object.entries(operation.responses).map(([status, { description }]) => (
          <li key={status}>
            <code>{status}</code> {description}
          </li>
        ))}
      </ul>
      {isFeed ? (
        <p class="soft">This call answers as long as you listen. Try it with curl -N.</p>
      ) : (
        <button type="submit" class="main" disabled={isBusy}>
          {isBusy ? 'Calling…' : 'Try it'}
        </button>
      )}
      <div aria-live="polite">{answer === null ? null : <AnswerView answer={answer} />}</div>
    </form>
  )
}

function AnswerView({ answer }: { readonly answer: Answer }): JSX.Element {
  if ('error' in answer) return <Notice tone="bad">{answer.error}</Notice>
  return (
    <>
      <p>
        <b>{answer.status}</b> <span class="soft">after {msText(answer.ms)}</span>
      </p>
      {answer.text === '' ? <p class="soft">The body is empty.</p> : <Code>{pretty(answer).slice(0, mostText)}</Code>}
    </>
  )
}

function pretty({ type, text }: { readonly type: string; readonly text: string }): string {
  if (!type.startsWith('application/json')) return text
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

function targetOf(path: string, parameters: readonly Parameter[], values: Readonly<Record<string, string>>): string {
  let target = path
  const query = new URLSearchParams()
  for (const { name, in: place } of parameters) {
    const value = values[name] ?? ''
    if (place === 'path') target = target.replace(`{${name}}`, () => encodeURIComponent(value))
    else if (value !== '') query.set(name, value)
  }
  return query.size === 0 ? target : `${target}?${query.toString()}`
}

const deepest = 6

/** A value that a schema allows, for the visitor to change. */
function example(schema: Schema, document: Document, depth: number): unknown {
  if (depth > deepest) return null
  if (schema.$ref !== undefined) {
    const found = document.components.schemas[schema.$ref.replace('#/components/schemas/', '')]
    return found === undefined ? null : example(found, document, depth + 1)
  }
  if ('const' in schema) return schema['const']
  const choice = (schema['enum'] ?? schema['oneOf'] ?? schema['anyOf']) as readonly unknown[] | undefined
  if (choice !== undefined)
    return 'enum' in schema ? choice[0] : example((choice[0] ?? {}) as Schema, document, depth + 1)
  if (schema['type'] === 'object') {
    const required = (schema['required'] ?? []) as readonly string[]
    const properties = Object.entries((schema['properties'] ?? {}) as Readonly<Record<string, Schema>>)
    const wanted = properties.filter(([name]) => required.includes(name) || name === 'data')
    return Object.fromEntries(wanted.map(([name, each]) => [name, example(each, document, depth + 1)]))
  }
  if (schema['type'] === 'array') return arrayExample(schema, document, depth)
  if (schema['type'] === 'integer' || schema['type'] === 'number') return schema['minimum'] ?? 0
  return schema['type'] === 'boolean' ? false : ''
}

function arrayExample(schema: Schema, document: Document, depth: number): unknown[] {
  const prefix = schema['prefixItems'] as readonly Schema[] | undefined
  if (prefix !== undefined) return prefix.map((each) => example(each, document, depth + 1) ?? 1)
  const items = schema['items'] as Schema | false | undefined
  if (items === undefined || items === false) return []
  const several = items['oneOf'] as readonly Schema[] | undefined
  return (several ?? [items]).map((each) => example(each, document, depth + 1))
}

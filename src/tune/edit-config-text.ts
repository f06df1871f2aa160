// Changes the tuned fields in the text of a config.pbtxt and keeps the rest as its author wrote it: comments, order,
// blanks.

import { parseModelConfigText } from '../repository/text-format-reader.ts'
import { keepsPreferredSizes, settingText, type Setting } from './setting.ts'

/** From the name of a field to behind its value. */
type FieldSpan = { readonly name: string; readonly start: number; readonly valueStart: number; readonly end: number }

const skipped = /(?:[\s,;]|#[^\n]*)+/y
const word = /[A-Za-z_][A-Za-z0-9_]*/y
const scalar = /(?:[^\s,;{}<>[\]#"']|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')+/y
const closers: Readonly<Record<string, string>> = { '{': '}', '<': '>', '[': ']' }

/** `now`: the setting that the server has. `groupKind`: for a file without an instance group. */
type ConfigEdit = { readonly now: Setting; readonly setting: Setting; readonly groupKind: string }

/** Fields that stay the same are not written. Throws when the result would not have the wanted setting. */
export function editConfigText(text: string, edit: ConfigEdit): string {
  const { now, setting, groupKind } = edit
  // A file with line ends of Windows keeps them.
  const isCarriaged = text.includes('\r\n')
  let edited = isCarriaged ? text.replaceAll('\r\n', '\n') : text
  if (setting.maxBatchSize !== now.maxBatchSize) {
    edited = withScalar(edited, 'max_batch_size', String(setting.maxBatchSize))
  }
  if (!keepsPreferredSizes(now, setting)) edited = withBatching(edited, edit)
  if (setting.instances !== now.instances) edited = withInstances(edited, setting.instances, groupKind)
  validateEdited(edited, edit)
  return isCarriaged ? edited.replaceAll('\n', '\r\n') : edited
}

/** The text for a model without a file. The server completes the other fields. */
export function newConfigText(name: string, backend: string, edit: ConfigEdit): string {
  return editConfigText(`name: "${name}"\n${backend === '' ? '' : `backend: "${backend}"\n`}`, edit)
}

const byHand = (setting: Setting): Error =>
  new Error(`config.pbtxt cannot be edited in place; set it by hand: ${settingText(setting)}`)

function validateEdited(text: string, { now, setting }: ConfigEdit): void {
  const { config } = parseModelConfigText(text)
  const batching = config.dynamicBatching
  // A field that the file does not have stays as the server completed it.
  const names = new Set(fieldsOf(text).map((field) => field.name))
  const said: Setting = {
    maxBatchSize: names.has('max_batch_size') ? config.maxBatchSize : now.maxBatchSize,
    delayUs: batching === null ? null : Number(batching.maxQueueDelayMicroseconds),
    instances: names.has('instance_group')
      ? config.instanceGroup.reduce((sum, group) => sum + Math.max(1, group.count), 0)
      : now.instances,
  }
  const isBatchingSaid = said.delayUs === setting.delayUs || (batching === null && now.delayUs === setting.delayUs)
  if (said.instances !== setting.instances || said.maxBatchSize !== setting.maxBatchSize || !isBatchingSaid) {
    throw byHand(setting)
  }
}

/** Sets a parameter, which is a text. Throws when the result would not have it. */
export function withParameter(text: string, key: string, value: string): string {
  // A file with line ends of Windows keeps them.
  const isCarriaged = text.includes('\r\n')
  const plain = isCarriaged ? text.replaceAll('\r\n', '\n') : text
  const edited = parameterEdited(plain, key, JSON.stringify(value))
  if (edited === null || parametersIn(edited).get(key)?.stringValue !== value) {
    throw new Error(`config.pbtxt cannot be edited in place; set it by hand: parameter '${key}' to '${value}'`)
  }
  return isCarriaged ? edited.replaceAll('\n', '\r\n') : edited
}

/** As the file has them: what they mean is nothing to an editor. */
const parametersIn = (text: string): ReadonlyMap<string, { readonly stringValue: string }> =>
  parseModelConfigText(text).config.parameters

/** Null: the parameter stands where it cannot be changed, in a list of several. */
function parameterEdited(text: string, key: string, quoted: string): string | null {
  for (const field of fieldsOf(text).filter(({ name }) => name === 'parameters')) {
    if (text[field.valueStart] === '[') continue
    const inner = innerFields(text, field)
    const named = inner.find(({ name }) => name === 'key')
    const value = inner.find(({ name }) => name === 'value')
    if (named === undefined || value === undefined) continue
    if (text.slice(named.valueStart, named.end).slice(1, -1) !== key) continue
    return withInner(text, value, 'string_value', quoted)
  }
  if (parametersIn(text).has(key)) return null
  return insertedLine(text, text.length, `parameters { key: "${key}" value { string_value: ${quoted} } }`)
}

function withScalar(text: string, name: string, value: string): string {
  const field = fieldsOf(text).find((each) => each.name === name)
  if (field !== undefined) return text.slice(0, field.valueStart) + value + text.slice(field.end)
  // The new field comes after the fields that name the model, where people look for it.
  const head = fieldsOf(text).findLast((each) => ['name', 'backend', 'platform'].includes(each.name))
  const at = head === undefined ? 0 : lineEnd(text, head.end)
  return insertedLine(text, at, `${name}: ${value}`)
}

function withBatching(text: string, { now, setting }: ConfigEdit): string {
  const { delayUs } = setting
  const field = fieldsOf(text).find((each) => each.name === 'dynamic_batching')
  if (delayUs === null) {
    if (field !== undefined) return without(text, field)
    // The server completed this field, and would complete it again.
    if (now.delayUs !== null) throw byHand(setting)
    return text
  }
  const delay = 'max_queue_delay_microseconds'
  if (field === undefined) {
    const block = delayUs === 0 ? 'dynamic_batching { }' : `dynamic_batching {\n  ${delay}: ${delayUs}\n}`
    return insertedLine(text, text.length, block)
  }
  const hasDelay = innerFields(text, field).some((each) => each.name === delay)
  const changed = delayUs === 0 && !hasDelay ? text : withInner(text, field, delay, String(delayUs))
  const again = fieldsOf(changed).find((each) => each.name === 'dynamic_batching') as FieldSpan
  const preferred = innerFields(changed, again).filter((each) => each.name === 'preferred_batch_size')
  return preferred.toReversed().reduce((rest, span) => without(rest, span), changed)
}

function withInstances(text: string, instances: number, kind: string): string {
  const groups = fieldsOf(text).filter((each) => each.name === 'instance_group')
  const [group] = groups
  if (group === undefined) {
    const kindLine = kind === '' ? '' : `  kind: ${kind}\n`
    return insertedLine(text, text.length, `instance_group {\n${kindLine}  count: ${instances}\n}`)
  }
  return withInner(text, group, 'count', String(instances))
}

/** Sets a field inside a message, also where the message is the only one of a list. */
function withInner(text: string, field: FieldSpan, name: string, value: string): string {
  const inner = innerFields(text, field).find((each) => each.name === name)
  if (inner !== undefined) return text.slice(0, inner.valueStart) + value + text.slice(inner.end)
  const { start, end } = bodyOf(text, field)
  const body = text.slice(start, end)
  if (!body.includes('\n')) {
    const rest = body.trim()
    return `${text.slice(0, start)} ${rest === '' ? '' : `${rest} `}${name}: ${value} ${text.slice(end)}`
  }
  const last = innerFields(text, field).at(-1)
  const lineStart = text.lastIndexOf('\n', (last?.start ?? field.start) - 1) + 1
  const indent = /^[ \t]*/.exec(text.slice(lineStart))?.[0] ?? ''
  const line = `${last === undefined ? `${indent}  ` : indent}${name}: ${value}`
  // A comment after the last field stays with this field.
  const at = last?.end ?? start
  const next = lineEnd(text, at)
  if (isRestOfLine(text.slice(at, next))) return insertedLine(text, next, line)
  return `${text.slice(0, at)}\n${line}${text.slice(at)}`
}

/** What is between the braces of a message. */
function bodyOf(text: string, { valueStart, end }: FieldSpan): { readonly start: number; readonly end: number } {
  let [from, to] = [valueStart, end]
  if (text[from] === '[') {
    from = matchAt(skipped, text, from + 1)
    to = valueEnd(text, from)
  }
  return { start: from + 1, end: to - 1 }
}

function innerFields(text: string, field: FieldSpan): FieldSpan[] {
  const { start, end } = bodyOf(text, field)
  return fieldsOf(text, start, end)
}

/** The fields of a message in their order. Throws at text that is not a field. */
function fieldsOf(text: string, from = 0, to = text.length): FieldSpan[] {
  const fields: FieldSpan[] = []
  for (let at = matchAt(skipped, text, from); at < to;) {
    const nameEnd = matchAt(word, text, at)
    if (nameEnd === at) throw new Error(`config.pbtxt cannot be read at '${text.slice(at, at + 20)}'`)
    let valueStart = matchAt(skipped, text, nameEnd)
    if (text[valueStart] === ':') valueStart = matchAt(skipped, text, valueStart + 1)
    const end = valueEnd(text, valueStart)
    fields.push({ name: text.slice(at, nameEnd), start: at, valueStart, end })
    at = matchAt(skipped, text, end)
  }
  return fields
}

function valueEnd(text: string, start: number): number {
  const closer = closers[text[start] ?? '']
  if (closer === undefined) {
    const end = matchAt(scalar, text, start)
    if (end === start) throw new Error(`config.pbtxt cannot be read at '${text.slice(start, start + 20)}'`)
    // Strings that follow each other are one value.
    const next = matchAt(skipped, text, end)
    return text[end - 1] === '"' && text[next] === '"' ? valueEnd(text, next) : end
  }
  let at = matchAt(skipped, text, start + 1)
  while (at < text.length && text[at] !== closer) {
    const isOpener = closers[text[at] ?? ''] !== undefined
    const next = isOpener ? valueEnd(text, at) : Math.max(at + 1, matchAt(scalar, text, at))
    at = matchAt(skipped, text, next)
  }
  return Math.min(at + 1, text.length)
}

function matchAt(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : at
}

/** The position after the end of the line, with its comment. */
function lineEnd(text: string, at: number): number {
  const end = text.indexOf('\n', at)
  return end < 0 ? text.length : end + 1
}

function insertedLine(text: string, at: number, line: string): string {
  const before = text.slice(0, at)
  const gap = before === '' || before.endsWith('\n') ? '' : '\n'
  return `${before}${gap}${line}\n${text.slice(at)}`
}

/** Removes a field, its comment, and its line when nothing else is on the line. */
function without(text: string, { start, end }: FieldSpan): string {
  const from = text.lastIndexOf('\n', start - 1) + 1
  const to = lineEnd(text, end)
  const isAlone = text.slice(from, start).trim() === '' && isRestOfLine(text.slice(end, to))
  if (isAlone) return text.slice(0, from) + text.slice(to)
  return text.slice(0, start).replace(/[ \t]+$/, '') + text.slice(end)
}

const isRestOfLine = (text: string): boolean => /^[\s,;]*(?:#.*)?\s*$/.test(text)

// The form of an answer: names and types of members, without the texts. test/fixtures/openai/wire/recording.py makes the same of the answers
// of other servers.

export type Form = null | string | readonly Form[] | { readonly [name: string]: Form }

export type RecordedAnswer = {
  readonly status: number
  readonly type: string
  readonly form?: Form
  readonly events?: readonly Form[]
}

export function formOf(value: unknown): Form {
  if (value === null || value === undefined) return null
  if (Array.isArray(value)) {
    const forms = value.map(formOf)
    const isOne = forms.length > 0 && forms.every((each) => JSON.stringify(each) === JSON.stringify(forms[0]))
    return isOne ? [forms[0] as Form] : forms
  }
  if (typeof value !== 'object') return typeof value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, each]) => [name, formOf(each)]))
}

/** What one member lacks of what was recorded; '' for nothing. Members that the recorded server alone has are in `apart`. */
export function missingIn(ours: Form, recorded: Form, apart: ReadonlySet<string>, path = ''): string {
  if (Array.isArray(recorded)) {
    if (!Array.isArray(ours)) return `${path} is no list`
    const [first] = recorded as readonly Form[]
    if (first === undefined) return ''
    const own = ours as readonly Form[]
    if (own.length === 0) return `${path} is empty`
    return own.map((each) => missingIn(each, first, apart, `${path}[]`)).find((each) => each !== '') ?? ''
  }
  // The piece that says who speaks has no text yet: null there, as OpenAI's empty text here.
  if (recorded === null && ours === 'string' && path.endsWith('.delta.content')) return ''
  if (typeof recorded !== 'object' || recorded === null) return ours === recorded ? '' : `${path} is ${JSON.stringify(ours)}, not ${String(recorded)}` // prettier-ignore
  if (typeof ours !== 'object' || ours === null || Array.isArray(ours)) return `${path} is no object`
  for (const [name, each] of Object.entries(recorded)) {
    if (apart.has(name) || apart.has(`${path}.${name}`)) continue
    const own = (ours as { readonly [name: string]: Form })[name]
    const missing = own === undefined ? `${path}.${name} is missing` : missingIn(own, each, apart, `${path}.${name}`)
    if (missing !== '') return missing
  }
  return ''
}

/** What is missing in an answer; '' for nothing. Each form of event that was recorded must come, whatever the order. */
export function missingInAnswer(ours: RecordedAnswer, recorded: RecordedAnswer, apart: ReadonlySet<string>): string {
  if (ours.status !== recorded.status) return `status ${ours.status}, not ${recorded.status}`
  if (ours.type !== recorded.type) return `type ${ours.type}, not ${recorded.type}`
  if (recorded.events === undefined) return missingIn(ours.form ?? null, recorded.form ?? null, apart)
  for (const event of recorded.events) {
    const missing = (ours.events ?? []).map((each) => missingIn(each, event, apart))
    if (!missing.includes('')) return `no event as ${JSON.stringify(event)}: ${missing.join('; ')}`
  }
  return ''
}

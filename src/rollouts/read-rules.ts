// `rules` and `key` of a rollout file: which requests go where, and which of them belong together.

import { LinearPattern } from '../base/linear-pattern.ts'
import { messageOf } from '../base/server-error.ts'
import type { PlanValue } from '../base/plan-reader.ts'
import type { KeySource } from './rollout-plan.ts'
import type { Condition, TrafficRule, ValueTest } from './traffic-rule.ts'

const maxRules = 64
const maxKeys = 8
const maxConditions = 16
const longestPattern = 1000
const example = 'as in { when: { group: [staff] }, to: candidate }'

/** `arms` are the names that `to` may have. */
export function readRules(at: PlanValue, arms: readonly string[]): TrafficRule[] {
  if (!at.isThere) return []
  return (at.items(maxRules, example) ?? []).flatMap((item) => readRule(item, arms) ?? [])
}

function readRule(at: PlanValue, arms: readonly string[]): TrafficRule | null {
  const fields = at.fields(['when', 'to', 'weight'], example)
  if (fields === null) return null
  const { to, weight } = fields
  if (to.isThere === weight.isThere) return at.fail("must have either 'to' or 'weight'", example)
  const when = readConditions(fields.when)
  return { when, to: to.isThere ? to.word(arms) : null, weight: weight.isThere ? weight.weight() : null }
}

const factKeys = ['header', 'cookie', 'parameter', 'group', 'tenant', 'country', 'protocol'] as const

/** All of them must hold. `ownKeys` are conditions that the caller reads itself. */
export function readConditions(at: PlanValue, ownKeys: readonly string[] = []): Condition[] {
  const fields = at.fields<string>([...factKeys, ...ownKeys], example) as Record<
    (typeof factKeys)[number],
    PlanValue
  > | null
  if (fields === null) return []
  const conditions: (Condition | null)[] = []
  for (const fact of ['header', 'cookie', 'parameter'] as const) {
    const named = fields[fact]
    if (!named.isThere) continue
    for (const [name, value] of named.entries(maxConditions, 'as in { header: { x-canary: "1" } }') ?? []) {
      const test = readTest(value)
      // Names of headers have no case, the others have.
      conditions.push(test && { fact, name: fact === 'header' ? name.toLowerCase() : name, test })
    }
  }
  for (const fact of ['group', 'tenant'] as const) {
    const test = fields[fact].isThere ? readTest(fields[fact]) : null
    if (test !== null) conditions.push({ fact, test })
  }
  const { country, protocol } = fields
  if (country.isThere) conditions.push(readCountry(country))
  if (protocol.isThere) {
    const word = protocol.word(['http', 'grpc'])
    conditions.push(word && { fact: 'protocol', test: { kind: 'in', values: new Set([word]) } })
  }
  const found = conditions.filter((condition) => condition !== null)
  const isOwn = ownKeys.some((key) => Object.hasOwn(at.value as object, key))
  if (conditions.length === 0 && !isOwn) at.fail('must have a condition', example)
  return found
}

function readCountry(at: PlanValue): Condition | null {
  const codes = at.texts()?.map((code) => code.toUpperCase()) ?? null
  if (codes === null) return null
  const wrong = codes.find((code) => !/^[A-Z]{2}$/.test(code))
  if (wrong !== undefined) return at.fail(`must have country codes of two letters, got '${wrong}'`)
  return { fact: 'country', test: { kind: 'in', values: new Set(codes) } }
}

/** A text is compared, a list is looked through, a mapping says how. */
function readTest(at: PlanValue): ValueTest | null {
  if (!at.isMapping) {
    const values = at.texts()
    return values && { kind: 'in', values: new Set(values) }
  }
  const fields = at.fields(['equals', 'in', 'prefix', 'matches'])
  const [chosen, ...more] = Object.values(fields ?? {}).filter((field) => field.isThere)
  if (fields === null) return null
  if (chosen === undefined || more.length > 0) return at.fail('must have one of equals, in, prefix, matches')
  if (chosen === fields.in) {
    const values = chosen.texts()
    return values && { kind: 'in', values: new Set(values) }
  }
  const text = chosen.text()
  if (text === null) return null
  if (chosen === fields.prefix) return { kind: 'prefix', prefix: text }
  return chosen === fields.equals ? { kind: 'in', values: new Set([text]) } : readPattern(chosen, text)
}

/** RE2's syntax, anywhere in the value. Values have case, as with `equals`. */
function readPattern(at: PlanValue, text: string): ValueTest | null {
  if (text.length > longestPattern) return at.fail(`must have at most ${longestPattern} characters, got ${text.length}`)
  try {
    return { kind: 'matches', pattern: new LinearPattern(`(?-i)${text}`) }
  } catch (reason) {
    return at.fail(`is not a regular expression of RE2: ${messageOf(reason)}`)
  }
}

const plainSources = ['principal', 'tenant', 'variant'] as const

export function readKey(at: PlanValue): KeySource[] {
  if (!at.isThere) return []
  const items = at.isText ? [at] : (at.items(maxKeys, 'as in [header:x-user-id]') ?? [])
  return items.flatMap((item) => readKeySource(item) ?? [])
}

function readKeySource(at: PlanValue): KeySource | null {
  const expected = 'header:NAME, cookie:NAME, parameter:NAME, principal, tenant or variant'
  const text = at.text(expected)
  if (text === null) return null
  const plain = plainSources.find((source) => source === text)
  if (plain !== undefined) return { from: plain }
  const [, from, name = ''] = /^(header|cookie|parameter):(\S{1,200})$/.exec(text) ?? []
  if (from === 'header') return { from, name: name.toLowerCase() }
  return from === 'cookie' || from === 'parameter' ? { from, name } : at.mustBe(expected)
}

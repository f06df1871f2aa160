// Rules that come before the weight: a header, a cookie, a parameter, the caller's group or tenant, the country, the protocol.

import type { LinearPattern } from '../base/linear-pattern.ts'

/** What routing may ask about a request. Everything is asked only when a rule or a key needs it. */
export interface RouteFacts {
  readonly protocol: string
  /** `name` is in lower case. Null: the request has no such header. */
  header(name: string): string | null
  /** Groups of the caller. */
  readonly groups: readonly string[]
  /** '' for none. */
  readonly tenant: string
  /** The caller's own name; '' for an anonymous caller. */
  readonly principal: string
  /** Two capital letters; '' when it is not known. */
  country(): string
  /** A parameter of the request's body as text; null: there is none. */
  parameter(name: string): string | null
  /** '' when the request belongs to no sequence. */
  correlationId(): string
}

export type ValueTest =
  | { readonly kind: 'in'; readonly values: ReadonlySet<string> }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'matches'; readonly pattern: LinearPattern }

export type Condition =
  | { readonly fact: 'header' | 'cookie' | 'parameter'; readonly name: string; readonly test: ValueTest }
  | { readonly fact: 'group' | 'tenant' | 'country' | 'protocol'; readonly test: ValueTest }

export type TrafficRule = {
  /** All must hold. */
  readonly when: readonly Condition[]
  /** The arm's name; null: `weight` decides. */
  readonly to: string | null
  /** The candidate's weight for this cohort, 0 to 10,000; null where `to` is set. */
  readonly weight: number | null
}

/** The first rule whose conditions all hold; null: none. */
export function matchRule(rules: readonly TrafficRule[], facts: RouteFacts): TrafficRule | null {
  for (const rule of rules) if (rule.when.every((condition) => holds(condition, facts))) return rule
  return null
}

function holds(condition: Condition, facts: RouteFacts): boolean {
  const { test } = condition
  switch (condition.fact) {
    case 'header':
      return passes(test, facts.header(condition.name))
    case 'cookie':
      return passes(test, cookieOf(facts, condition.name))
    case 'parameter':
      return passes(test, facts.parameter(condition.name))
    case 'group':
      return facts.groups.some((group) => passes(test, group))
    case 'tenant':
      return facts.tenant !== '' && passes(test, facts.tenant)
    case 'country':
      return passes(test, facts.country())
    case 'protocol':
      return passes(test, facts.protocol)
    default:
      return false
  }
}

function passes(test: ValueTest, value: string | null): boolean {
  if (value === null) return false
  if (test.kind === 'in') return test.values.has(value)
  return test.kind === 'prefix' ? value.startsWith(test.prefix) : test.pattern.matches(value)
}

/** The value of a cookie, without the quotes that it may have; null: there is no such cookie. */
export function cookieOf(facts: RouteFacts, name: string): string | null {
  for (const pair of (facts.header('cookie') ?? '').split(';')) {
    const equals = pair.indexOf('=')
    if (equals === -1 || pair.slice(0, equals).trim() !== name) continue
    return pair
      .slice(equals + 1)
      .trim()
      .replace(/^"(.*)"$/, '$1')
  }
  return null
}

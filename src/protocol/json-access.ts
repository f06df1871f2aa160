// JSON values of a wrong kind.

import { worded, type WordedError } from '../model/worded-error.ts'

/** What Triton was doing with the member. */
type Verb = 'parse' | 'set'

export const notAnArray = (member: string): WordedError =>
  worded('memberKind', { member, verb: 'parse', kind: 'array' })

/** `other`: a member of the same object that nobody asked for; '' for none. */
export const missingMember = (member: string, other = ''): WordedError =>
  worded('missingMember', { member, verb: 'parse', other })

export function asString(value: unknown, member = '', verb: Verb = 'parse'): string {
  if (typeof value === 'string') return value
  throw worded('memberKind', { member, verb, kind: 'string' })
}

export function asBoolean(value: unknown, member = '', verb: Verb = 'parse'): boolean {
  if (typeof value === 'boolean') return value
  throw worded('memberKind', { member, verb, kind: 'boolean' })
}

/** 0 to 2⁶⁴-1. */
export function asUnsigned(value: unknown, member = '', verb: Verb = 'parse'): bigint {
  if (typeof value === 'bigint' && value >= 0n) return value
  throw worded('memberKind', { member, verb, kind: 'unsigned-integer' })
}

// Triton's errors for JSON values of a wrong type. All of them are INTERNAL, and so a 500.

import { ServerError } from '../base/server-error.ts'

const internal = (message: string): ServerError => ServerError.withoutStack('INTERNAL', message)

export const prefixed = (name: string, message: string): ServerError =>
  internal(`Unable to parse '${name}': ${message}`)

export const missingMember = (name: string): ServerError =>
  prefixed(name, `attempt to access non-existing object member '${name}'`)

export function asString(value: unknown, prefix = ''): string {
  if (typeof value === 'string') return value
  throw internal(`${prefix}attempt to access JSON non-string as string`)
}

export function asBoolean(value: unknown, prefix = ''): boolean {
  if (typeof value === 'boolean') return value
  throw internal(`${prefix}attempt to access JSON non-boolean as boolean`)
}

/** 0 to 2⁶⁴-1. */
export function asUnsigned(value: unknown, prefix = ''): bigint {
  if (typeof value === 'bigint' && value >= 0n) return value
  throw internal(`${prefix}attempt to access JSON non-unsigned-integer as unsigned-integer`)
}

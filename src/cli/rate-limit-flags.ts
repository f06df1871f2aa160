import { parseInteger } from './flag-forms.ts'
import type { Flags } from './flags.ts'

/** Null: off. A resource without a device is of that size on every device, and as a global one. */
export function rateLimit(flags: Flags): { readonly resources: ReadonlyMap<string, number> | null } | null {
  if (flags.text('rate-limit') === 'off') return null
  const given = flags.all('rate-limit-resource')
  if (given.length === 0) return { resources: null }
  const resources = new Map<string, number>()
  for (const value of given) {
    const [name = '', count = '', device] = value.split(':')
    resources.set(
      device === undefined ? name : `${name}:${device}`,
      parseInteger('rate-limit-resource', count, 0, 2 ** 31 - 1),
    )
  }
  return { resources }
}

// The keys and values of a registry file. A value that breaks a rule is left out and reported; the rest of the file counts.

import { cutText, describedValue } from '../base/described-value.ts'
import { nearestWord } from '../base/nearest-word.ts'
import type { RegistryEntry, RegistryFields, RegistryValue } from '../model/registry-entry.ts'
import type { Position } from './text-format-error.ts'

/** `message` names the key, what was expected and what it has; `fix` says what to do, '' when the message is enough. */
export type RegistryProblem = {
  readonly message: string
  readonly fix: string
  readonly position: Position | null
}

type Fields = { -readonly [Key in keyof RegistryFields]: RegistryFields[Key] }
type Keys = readonly string[]
type Report = (keys: Keys, message: string, fix?: string) => void

const maxTextChars = 4096
const maxListItems = 100
const maxMetrics = 500
const maxVersions = 1000
const maxExtraDepth = 8
const dearestHour = 1e9
/** At most so many problems are reported at once; a person who has mended these sees the next ones. */
const maxProblems = 50

/** By key, in the order in which the registry shows the keys. */
const readers: Readonly<Record<string, (fields: Fields, value: unknown, keys: Keys, report: Report) => void>> = {
  owner: (fields, value, keys, report) => take(fields, 'owner', textOf(value, keys, report)),
  description: (fields, value, keys, report) => take(fields, 'description', textOf(value, keys, report)),
  tags: (fields, value, keys, report) => take(fields, 'tags', listOf(value, keys, report)),
  framework: (fields, value, keys, report) => take(fields, 'framework', textOf(value, keys, report)),
  training_data: (fields, value, keys, report) => take(fields, 'trainingData', listOf(value, keys, report)),
  metrics: (fields, value, keys, report) => take(fields, 'metrics', metricsOf(value, keys, report)),
  approved_by: (fields, value, keys, report) => take(fields, 'approvedBy', listOf(value, keys, report)),
  lineage: (fields, value, keys, report) => take(fields, 'lineage', lineageOf(value, keys, report)),
  cost: (fields, value, keys, report) => take(fields, 'cost', costOf(value, keys, report)),
}

const registryKeys: readonly string[] = [...Object.keys(readers), 'versions']

/** `positionOf` tells where the value of a key stands in the text. */
export function readRegistryEntry(
  value: unknown,
  positionOf: (keys: Keys) => Position | null,
): { readonly entry: RegistryEntry; readonly problems: readonly RegistryProblem[] } {
  const problems: RegistryProblem[] = []
  const report: Report = (keys, message, fix = '') => {
    if (problems.length < maxProblems) problems.push({ message, fix, position: positionOf(keys) })
  }
  const versions = new Map<string, RegistryFields>()
  // An empty file is no mistake.
  if (value === null || value === undefined) return { entry: { fields: {}, versions }, problems }
  if (!isMapping(value)) {
    report([], `the file must be a mapping of keys to values, got ${describedValue(value)}`, 'begin with: owner: …')
    return { entry: { fields: {}, versions }, problems }
  }
  const fields = readFields(value, [], report)
  const ofVersions = value['versions']
  if (ofVersions !== undefined && ofVersions !== null) readVersions(ofVersions, versions, report)
  problems.sort((a, b) => (a.position?.line ?? 0) - (b.position?.line ?? 0))
  return { entry: { fields, versions }, problems }
}

function readVersions(value: unknown, versions: Map<string, RegistryFields>, report: Report): void {
  if (!isMapping(value)) {
    report(['versions'], `'versions' must be a mapping of version numbers to keys, got ${describedValue(value)}`)
    return
  }
  for (const [version, ofVersion] of Object.entries(value).slice(0, maxVersions)) {
    const keys = ['versions', version]
    if (!/^[0-9]{1,19}$/.test(version))
      report(keys, `'versions' has the key '${cutText(version)}', expected a version number`)
    else if (ofVersion === null) continue
    else if (!isMapping(ofVersion)) {
      report(keys, `'versions.${version}' must be a mapping of keys to values, got ${describedValue(ofVersion)}`)
    } else versions.set(String(BigInt(version)), readFields(ofVersion, keys, report))
  }
}

function readFields(mapping: Mapping, within: Keys, report: Report): RegistryFields {
  const fields: Fields = {}
  const extra = Object.create(null) as Record<string, RegistryValue>
  for (const [key, value] of Object.entries(mapping)) {
    const keys = [...within, key]
    // `approved-by` means `approved_by`.
    const name = key.replaceAll('-', '_')
    if (name === 'versions' && within.length === 0) continue
    if (Object.hasOwn(readers, name)) {
      if (value !== null) readers[name]?.(fields, value, keys, report)
      continue
    }
    const near = key.length > 40 ? null : nearestWord(name, registryKeys)
    if (near !== null) report(keys, `unknown key '${pathOf(keys)}'`, `did you mean '${near}'? it is kept under 'extra'`)
    if (depthOf(value) > maxExtraDepth) report(keys, `'${pathOf(keys)}' is nested too deeply and was left out`)
    else extra[key] = plain(value)
  }
  if (Object.keys(extra).length > 0) fields.extra = extra
  return fields
}

function take<Key extends keyof Fields>(fields: Fields, key: Key, value: Fields[Key] | null): void {
  if (value !== null) fields[key] = value
}

function textOf(value: unknown, keys: Keys, report: Report): string | null {
  if (typeof value !== 'string') {
    const fix = typeof value === 'number' || typeof value === 'boolean' ? 'put it in quotes' : ''
    report(keys, `'${pathOf(keys)}' must be text, got ${describedValue(value)}`, fix)
    return null
  }
  if (value.length > maxTextChars) {
    report(keys, `'${pathOf(keys)}' must have at most ${maxTextChars} characters, got ${value.length}`)
    return null
  }
  return value
}

/** A text alone stands for a list of one. */
function listOf(value: unknown, keys: Keys, report: Report): readonly string[] | null {
  const items: readonly unknown[] | null = typeof value === 'string' ? [value] : Array.isArray(value) ? value : null
  if (items === null) {
    report(keys, `'${pathOf(keys)}' must be a list of texts, got ${describedValue(value)}`)
    return null
  }
  if (items.length > maxListItems) {
    report(keys, `'${pathOf(keys)}' must have at most ${maxListItems} items, got ${items.length}`)
    return null
  }
  const texts = items.map((item, index) => textOf(item, [...keys, String(index)], report))
  return [...new Set(texts.filter((text) => text !== null && text !== ''))] as string[]
}

function metricsOf(value: unknown, keys: Keys, report: Report): Readonly<Record<string, number>> | null {
  if (!isMapping(value)) {
    report(
      keys,
      `'${pathOf(keys)}' must be a mapping of names to numbers, got ${describedValue(value)}`,
      'as in {accuracy: 0.97}',
    )
    return null
  }
  const metrics = Object.create(null) as Record<string, number>
  for (const [name, number] of Object.entries(value).slice(0, maxMetrics)) {
    if (typeof number === 'number' && Number.isFinite(number)) metrics[name] = number
    else report([...keys, name], `'${pathOf([...keys, name])}' must be a finite number, got ${describedValue(number)}`)
  }
  return metrics
}

function lineageOf(value: unknown, keys: Keys, report: Report): RegistryFields['lineage'] | null {
  if (!isMapping(value)) {
    report(keys, `'${pathOf(keys)}' must be a mapping with parent_version or source_uri, got ${describedValue(value)}`)
    return null
  }
  const lineage: { parentVersion?: string; sourceUri?: string } = {}
  for (const [key, part] of Object.entries(value)) {
    const at = [...keys, key]
    const name = key.replaceAll('-', '_')
    if (part === null) continue
    if (name === 'parent_version') {
      const version = typeof part === 'number' ? String(part) : part
      if (typeof version === 'string' && /^[0-9]{1,19}$/.test(version)) lineage.parentVersion = version
      else report(at, `'${pathOf(at)}' must be a version number, got ${describedValue(part)}`)
    } else if (name === 'source_uri') {
      const uri = textOf(part, at, report)
      if (uri !== null) lineage.sourceUri = uri
    } else report(at, `unknown key '${pathOf(at)}', expected parent_version or source_uri`)
  }
  return lineage
}

function costOf(value: unknown, keys: Keys, report: Report): RegistryFields['cost'] | null {
  if (keys.length > 1) {
    report(keys, `'${pathOf(keys)}' does not count: a price is that of all versions`, "write 'cost' beside 'versions'")
    return null
  }
  const price = isMapping(value) ? (value['instance_hour'] ?? value['instance-hour']) : undefined
  if (typeof price === 'number' && price > 0 && price <= dearestHour && Object.keys(value as Mapping).length === 1) {
    return { instanceHour: price }
  }
  report(keys, `'cost' must have the key instance_hour with a number above 0 and up to ${dearestHour}, got ${describedValue(value)}`, 'as in {instance_hour: 0.4}') // prettier-ignore
  return null
}

type Mapping = Readonly<Record<string, unknown>>

const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function depthOf(value: unknown, depth = 1): number {
  if (typeof value !== 'object' || value === null || depth > maxExtraDepth) return depth
  return Object.values(value).reduce<number>((deepest, item) => Math.max(deepest, depthOf(item, depth + 1)), depth)
}

/** The copy has no prototype, so that no key can mean a member of Object.prototype. */
function plain(value: unknown): RegistryValue {
  if (Array.isArray(value)) return value.map(plain)
  if (isMapping(value)) {
    const copy = Object.create(null) as Record<string, RegistryValue>
    for (const [key, item] of Object.entries(value)) copy[key] = plain(item)
    return copy
  }
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  return typeof value === 'string' || typeof value === 'boolean' ? value : null
}

const pathOf = (keys: Keys): string => cutText(keys.join('.'))

import { createHash } from 'node:crypto'
import type { FoundModel } from '../../repository/model-repository.ts'

/**
 * What a version is loaded from: its files and its configuration, but for the number of instances and the choice of
 * versions, which can change while it serves. '' when the repository does not tell the content of its files.
 */
export function versionOrigin(model: FoundModel, version: string): string {
  const { config, partFingerprints, modelDirectory } = model
  if (partFingerprints === undefined) return ''
  const text = JSON.stringify({ ...config, instanceGroup: [], versionPolicy: null }, writable)
  const files = [partFingerprints.get(''), partFingerprints.get(version)]
  return createHash('sha256')
    .update(JSON.stringify([modelDirectory, text, ...files]))
    .digest('hex')
}

function writable(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  return value instanceof Map ? [...(value as Map<unknown, unknown>)] : value
}

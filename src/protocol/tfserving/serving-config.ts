// ModelServerConfig → the models to serve. The configuration of each, where its folder has none, comes from its version policy
// and from the batching parameters of the server.

import type { MessageValue } from '../../protobuf/message-codec.ts'
import { invalid } from './predict-request.ts'

export type ServingEntry = {
  readonly name: string
  readonly folder: string
  readonly configText: string
  /** For a folder with a configuration of its own that has no policy. */
  readonly versionPolicyText: string
  readonly hasPaddedVersions: true
  /** Label → version. */
  readonly labels: ReadonlyMap<string, string>
}

/** Throws INVALID_ARG for a configuration that names no models, or names one twice. */
export function servingEntries(config: MessageValue | null, batchingText: string): ServingEntry[] {
  const list = (config?.['modelConfigList'] ?? null) as MessageValue | null
  if (list === null) {
    throw invalid(
      'ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported',
    )
  }
  const seen = new Set<string>()
  return (list['config'] as MessageValue[]).map((model) => {
    const [name, folder] = [model['name'] as string, model['basePath'] as string]
    if (name === '') throw invalid('a model of the configuration has no name')
    if (seen.has(name)) throw invalid(`Illegal to list model ${name} multiple times in config list`)
    seen.add(name)
    if (!/^(\/|[A-Za-z][\w.+-]*:\/\/)/.test(folder)) {
      throw invalid(`Expected model ${name} to have an absolute path or URI; got base_path()=${folder}`)
    }
    const labels = new Map<string, string>()
    for (const [label, version] of model['versionLabels'] as Map<string, bigint>) labels.set(label, String(version))
    const policy = (model['modelVersionPolicy'] ?? null) as MessageValue | null
    const versionPolicyText = policyText(policy)
    const configText = `${versionPolicyText}${batchingText}`
    return { name, folder, configText, versionPolicyText, hasPaddedVersions: true, labels }
  })
}

function policyText(policy: MessageValue | null): string {
  const choice = (name: string): MessageValue | null => (policy?.[name] ?? null) as MessageValue | null
  const specific = choice('specific')
  if (choice('all') !== null) return 'version_policy { all { } }\n'
  if (specific !== null) {
    return `version_policy { specific { versions: [ ${(specific['versions'] as bigint[]).join(', ')} ] } }\n`
  }
  const count = Number(choice('latest')?.['numVersions'] ?? 1) || 1
  return `version_policy { latest { num_versions: ${count} } }\n`
}

/** Parameters of a model as a part of its configuration. */
export const parametersText = (parameters: ReadonlyMap<string, string>): string =>
  [...parameters]
    .map(([key, value]) => `parameters { key: ${quoted(key)} value { string_value: ${quoted(value)} } }\n`)
    .join('')

/** A string of protobuf's text format: JSON's escapes are some of its own. */
const quoted = (text: string): string => JSON.stringify(text)

/** What `--enable_batching` says, as a configuration of a model: max_batch_size and how long a batch waits. */
export function batchingText(parameters: MessageValue | null): string {
  const value = (name: string): number | null => {
    const wrapped = (parameters?.[name] ?? null) as MessageValue | null
    return wrapped === null ? null : Number(wrapped['value'])
  }
  // TensorFlow Serving's own defaults.
  const batchSize = value('maxBatchSize') ?? 1000
  const delayUs = value('batchTimeoutMicros') ?? 0
  const batches = value('maxEnqueuedBatches') ?? 10
  const threads = value('numBatchThreads')
  const sizes = ((parameters?.['allowedBatchSizes'] ?? []) as bigint[]).map(Number)
  const preferred = sizes.length === 0 ? '' : ` preferred_batch_size: [ ${sizes.join(', ')} ]`
  const queue = `default_queue_policy { max_queue_size: ${Math.max(1, batchSize * batches)} }`
  const instances = threads === null ? '' : `instance_group { kind: KIND_CPU count: ${Math.max(1, threads)} }\n`
  return `max_batch_size: ${batchSize}\ndynamic_batching { max_queue_delay_microseconds: ${delayUs}${preferred} ${queue} }\n${instances}`
}

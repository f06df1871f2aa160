// The tuned setting: three fields of a model's configuration.

export type Setting = {
  /** 0: the model takes no batches. */
  readonly maxBatchSize: number
  /** Null: no dynamic batching. */
  readonly delayUs: number | null
  readonly instances: number
}

type JsonObject = Readonly<Record<string, unknown>>

export const keyOf = ({ maxBatchSize, delayUs, instances }: Setting): string =>
  `${maxBatchSize}/${delayUs ?? '-'}/${instances}`

export function settingText({ maxBatchSize, delayUs, instances }: Setting): string {
  const many = `${instances} instance${instances === 1 ? '' : 's'}`
  if (maxBatchSize === 0) return many
  if (delayUs === null) return `no batching, ${many}`
  return `batches of up to ${maxBatchSize}, delay ${delayUs} us, ${many}`
}

/** The setting in the server's present configuration. */
export function settingOf(config: JsonObject): Setting {
  const batching = (config['dynamic_batching'] ?? null) as JsonObject | null
  const groups = instanceGroupsOf(config)
  return {
    maxBatchSize: Number(config['max_batch_size'] ?? 0),
    delayUs: batching === null ? null : Number(batching['max_queue_delay_microseconds'] ?? 0),
    instances: Math.max(
      1,
      groups.reduce((sum, group) => sum + Number(group['count'] ?? 1), 0),
    ),
  }
}

export const instanceGroupsOf = (config: JsonObject): readonly JsonObject[] =>
  (config['instance_group'] ?? []) as readonly JsonObject[]

/** Preferred sizes belong to one size and delay. With other values they would hide the effect of the delay. */
export const keepsPreferredSizes = (now: Setting, { maxBatchSize, delayUs }: Setting): boolean =>
  maxBatchSize === now.maxBatchSize && delayUs === now.delayUs

/** A configuration to load instead of the repository's, without a response cache, which would falsify the figures. */
export function configWith(config: JsonObject, setting: Setting): JsonObject {
  const { maxBatchSize, delayUs, instances } = setting
  const { dynamic_batching: batching, response_cache: _cache, ...rest } = config
  const [group = {}] = instanceGroupsOf(config)
  const isSingle = instanceGroupsOf(config).length <= 1
  const preferred = keepsPreferredSizes(settingOf(config), setting) ? {} : { preferred_batch_size: [] }
  return {
    ...rest,
    max_batch_size: maxBatchSize,
    ...(isSingle ? { instance_group: [{ ...group, count: instances }] } : {}),
    ...(delayUs === null
      ? {}
      : {
          dynamic_batching: {
            ...((batching ?? {}) as JsonObject),
            ...preferred,
            max_queue_delay_microseconds: delayUs,
          },
        }),
  }
}

// Between which numbers the instances of a model follow its load.

import type { ModelConfig, ModelInstanceGroup } from './model-config.ts'

export type ScaleLimits = {
  readonly min: number
  readonly max: number
  /** The share of the time in which an instance shall be busy. */
  readonly target: number
  /** Whether last week's load of the same hour brings instances before the load comes. */
  readonly usesForecast: boolean
}

export const mostScaledInstances = 1024
const usualTarget = 0.7

/** Null: the number of instances is fixed. The parameters were checked, or will be. */
export function scaleLimitsOf({ parameters }: Pick<ModelConfig, 'parameters'>): ScaleLimits | null {
  const numberOf = (key: string): number => Number(parameters.get(key)?.stringValue ?? NaN)
  const max = numberOf('instances_max')
  if (!Number.isSafeInteger(max) || max < 1) return null
  const min = numberOf('instances_min') || 1
  const target = numberOf('instances_target') || usualTarget
  const usesForecast = parameters.get('instances_forecast')?.stringValue.toLowerCase() === 'true'
  return { min: Math.min(min, max), max, target, usesForecast }
}

/** The groups whose instances take requests. */
export const activeGroups = ({ instanceGroup }: Pick<ModelConfig, 'instanceGroup'>): readonly ModelInstanceGroup[] =>
  instanceGroup.filter(({ passive }) => !passive)

/** `config` with so many instances, on each GPU where the group names GPUs. */
export function withInstanceCount(config: ModelConfig, count: number): ModelConfig {
  const instanceGroup = config.instanceGroup.map((group) => (group.passive ? group : { ...group, count }))
  return { ...config, instanceGroup }
}

/** What stands against a number of instances that changes. */
export function scaleObstacles(config: ModelConfig, max: number): string[] {
  const { parameters } = config
  const min = Number(parameters.get('instances_min')?.stringValue ?? 1)
  const obstacles: [what: string, isThere: boolean][] = [
    [`is ${max}, which is below instances_min ${min}`, min > max],
    ['needs a model with instances, and an ensemble has none', config.ensembleScheduling !== null],
    ['needs one instance group that takes requests: which of several should grow?', activeGroups(config).length > 1],
  ]
  return obstacles.filter(([, isThere]) => isThere).map(([what]) => what)
}

export const needsInstancesMax = ({ parameters }: ModelConfig): string[] =>
  parameters.has('instances_max') ? [] : ["needs 'instances_max': without it the number of instances is fixed"]

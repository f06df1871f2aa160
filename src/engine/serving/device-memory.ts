import type { ModelConfig } from '../../config/model-config.ts'
import { readParameter } from '../../config/model-parameters.ts'
import type { Instance } from '../../model/backend.ts'
import type { DeviceMemory } from '../../model/model-version.ts'

/**
 * The GPU on which all Instances leave tensors where they lie; null: there is none, or somebody between the client and the
 * Instances looks at the bytes of tensors, and must find them in memory of the host.
 */
export function deviceMemoryOf(config: ModelConfig, instances: readonly Instance[]): DeviceMemory | null {
  const deviceId = instances[0]?.deviceId
  if (deviceId === undefined || instances.some((instance) => instance.deviceId !== deviceId)) return null
  const isRead =
    config.sequenceBatching !== null ||
    config.responseCache?.enable === true ||
    config.output.some(({ labelFilename }) => labelFilename !== '') ||
    readParameter(config, 'single_flight') !== null ||
    readParameter(config, 'pad_inputs') !== null
  if (isRead) return null
  return { deviceId, hasInputs: instances.every(({ hasHostInputs = false }) => !hasHostInputs) }
}

/** Whether neither the Instances nor anybody between the client and them looks at inputs behind the answer. */
export const isDoneOnAnswer = (config: ModelConfig, instances: readonly Instance[]): boolean =>
  instances.every((instance) => instance.isDoneOnAnswer === true) &&
  config.sequenceBatching === null &&
  config.responseCache?.enable !== true &&
  readParameter(config, 'single_flight') === null

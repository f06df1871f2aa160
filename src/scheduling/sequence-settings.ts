import type { ModelConfig, ModelSequenceBatching } from '../config/model-config.ts'
import type { ModelSignature } from '../config/model-signature.ts'
import { SequenceControls } from './sequence-controls.ts'
import type { SequenceBatchLimits } from './sequence-plan.ts'
import { SequenceStates } from './sequence-states.ts'
import type { StartHold } from './start-hold.ts'

export type SequenceSettings = {
  readonly modelName: string
  readonly isOldestFirst: boolean
  /** A request without an id is a sequence of its own, and the model may reschedule it. */
  readonly isIterative: boolean
  readonly slotCount: number
  readonly limits: SequenceBatchLimits
  readonly idleNs: number
  /** How many requests may wait, those of the backlog included. */
  readonly maxQueueSize: number
  readonly preservesOrder: boolean
  /** Requests may differ in shape: only requests of equal shape run together. */
  readonly shapesMayDiffer: boolean
  readonly controls: SequenceControls
  readonly states: SequenceStates
  /** Null or absent: the first request may run. */
  readonly startHold?: StartHold | null
}

/** `initialStates` holds the content of each `data_file`, by the state's input name. */
export function sequenceSettings(
  config: ModelConfig,
  batching: ModelSequenceBatching,
  signature: ModelSignature,
  options: {
    readonly maxQueueSize: number
    readonly initialStates: ReadonlyMap<string, Uint8Array>
    readonly startHold?: StartHold | null
  },
): SequenceSettings {
  const { oldest, direct } = batching
  const maxBatchSize = Math.max(1, config.maxBatchSize)
  const delayUs = (oldest ?? direct)?.maxQueueDelayMicroseconds ?? 0n
  const isOpen = ({ dims }: { readonly dims: readonly number[] }): boolean => dims.includes(-1)
  return {
    modelName: config.name,
    isOldestFirst: oldest !== null,
    isIterative: batching.iterativeSequence,
    slotCount: oldest === null ? maxBatchSize : Math.max(1, oldest.maxCandidateSequences),
    limits: {
      maxBatchSize,
      delayNs: Number(delayUs) * 1000,
      minimumSlotUtilization: direct?.minimumSlotUtilization ?? 0,
      preferredSizes: oldest?.preferredBatchSize ?? [],
    },
    idleNs: Number(batching.maxSequenceIdleMicroseconds) * 1000,
    maxQueueSize: options.maxQueueSize,
    preservesOrder: oldest?.preserveOrdering ?? false,
    shapesMayDiffer:
      signature.inputs.some((input) => (isOpen(input) && !input.allowsRagged) || input.isOptional) ||
      batching.state.some(isOpen),
    controls: new SequenceControls(config),
    states: new SequenceStates(config, options.initialStates),
    startHold: options.startHold ?? null,
  }
}

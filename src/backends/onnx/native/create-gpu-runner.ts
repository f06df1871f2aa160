// What only models on GPUs need, in one place: a server without a GPU never reads this code.

import type { Gpus } from '../../../cuda/gpus.ts'
import type { GpuPlace, OnnxRunner } from '../onnx-session.ts'
import type { SessionSettings } from '../session-settings.ts'
import { GpuLane } from './gpu-lane.ts'
import { GpuRunner } from './gpu-runner.ts'
import { GpuValues } from './gpu-values.ts'
import type { Address, OrtLibrary } from './ort-library.ts'
import type { PlanContext } from './plan-slots.ts'

export { appendProvider } from './append-providers.ts'
export { preloadLibraries } from './preload-libraries.ts'

type RunnerParts = {
  readonly library: OrtLibrary
  readonly session: Address
  readonly context: PlanContext
  readonly runEntries: SessionSettings['runEntries']
}

export function createGpuRunner(
  gpus: Gpus,
  parts: RunnerParts,
  traits: GpuPlace,
  cores: readonly number[],
): OnnxRunner {
  const { library } = parts
  const { deviceId, isBusyWaiting } = traits
  const thread = gpus.startThread(deviceId, { run: library.runAddress, isBusyWaiting, cores })
  const lane = new GpuLane(thread, { device: gpus.pool(deviceId), pinned: gpus.pinned })
  const values = new GpuValues(library, gpus.ofTests ? null : deviceId)
  return new GpuRunner({ ...parts, traits, thread, faults: gpus.faults, gate: gpus.gate, lane, values })
}

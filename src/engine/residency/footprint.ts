// Memory by the place where it is: that of the host, and of each GPU.

import type { ModelConfig } from '../../config/model-config.ts'

/** Bytes by place: the number of a GPU, or `hostPlace`. */
export type Footprint = ReadonlyMap<number, number>

export const hostPlace = -1

export const placeName = (place: number): string => (place === hostPlace ? 'the host' : `GPU ${place}`)

/** The sums by place. */
export function totalOf(footprints: readonly Footprint[]): Footprint {
  const total = new Map<number, number>()
  for (const footprint of footprints)
    for (const [place, bytes] of footprint) total.set(place, Math.ceil((total.get(place) ?? 0) + bytes))
  return total
}

/** Whether the configuration, which no backend has completed yet, puts instances on the GPU: a group that names none is on all. */
export const gpusOf = ({ instanceGroup }: ModelConfig, deviceId: number): boolean =>
  instanceGroup.some(({ kind, gpus }) => kind === 'KIND_GPU' && (gpus.length === 0 || gpus.includes(deviceId)))

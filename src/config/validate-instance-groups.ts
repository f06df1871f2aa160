import { problem, type ConfigProblem } from './config-problem.ts'
import { isEnsemble, tensorRtPlatform } from './known-backends.ts'
import type { ModelConfig, ModelInstanceGroup } from './model-config.ts'

/** `leastCapability`: `--min-supported-compute-capability`; absent: its default. */
export type GpuRules = { readonly gpuCount: number; readonly leastCapability?: number | undefined }

/** Rules for the groups after `normaliseInstanceGroups`. */
export function* instanceGroupProblems(config: ModelConfig, rules: GpuRules): Generator<ConfigProblem> {
  if (config.ensembleScheduling !== null || isEnsemble(config)) return
  if (config.instanceGroup.length === 0) {
    yield problem('instance_group', `must specify one or more 'instance group's for ${config.name}`)
  }
  for (const [index, group] of config.instanceGroup.entries()) {
    yield* groupProblems(config, group, `instance_group[${index}]`, rules)
  }
}

function* groupProblems(
  config: ModelConfig,
  group: ModelInstanceGroup,
  path: string,
  rules: GpuRules,
): Generator<ConfigProblem> {
  const which = `instance group ${group.name} of model ${config.name}`
  switch (group.kind) {
    case 'KIND_GPU':
      yield* gpuProblems(group, which, path, rules)
      break
    case 'KIND_CPU':
    case 'KIND_MODEL':
      if (group.gpus.length > 0) {
        const message = `${which} has kind ${group.kind} but specifies one or more GPUs`
        yield problem(`${path}.gpus`, message, "leave 'gpus' out, or use KIND_GPU where there is a GPU")
      }
      break
    case 'KIND_AUTO':
      yield problem(`${path}.kind`, `${which} has unexpected kind KIND_AUTO`)
      break
  }
  if (group.profile.length > 0 && config.platform !== tensorRtPlatform) {
    // The space missing after the platform is Triton's.
    const message = `${which} and platform ${config.platform}specifies profile field which is only supported for TensorRT models`
    yield problem(`${path}.profile`, message, "leave 'profile' out")
  }
}

const cpuInstead = 'use KIND_CPU, or leave kind and gpus out to use GPUs only where there are some'
const noneFound = "no GPU was found here ('nvidia-smi' must show it; in a container: --gpus all)"

function* gpuProblems(
  group: ModelInstanceGroup,
  which: string,
  path: string,
  { gpuCount, leastCapability = 6 }: GpuRules,
): Generator<ConfigProblem> {
  const instead = gpuCount === 0 ? `${cpuInstead}; ${noneFound}` : cpuInstead
  if (group.gpus.length === 0) {
    const why = gpuCount === 0 ? 'no GPUs are available' : 'specifies no GPUs'
    yield problem(`${path}.kind`, `${which} has kind KIND_GPU but ${why}`, instead)
  }
  const ids = Array.from({ length: gpuCount }, (_, id) => id)
  for (const [index, id] of group.gpus.entries()) {
    if (ids.includes(id)) continue
    const message = `${which} specifies invalid or unsupported gpu id ${id}. GPUs with at least the minimum required CUDA compute compatibility of ${leastCapability.toFixed(6)} are: ${ids.join(', ')}`
    yield problem(`${path}.gpus[${index}]`, message, gpuCount === 0 ? instead : `use one of ${ids.join(', ')}`)
  }
}

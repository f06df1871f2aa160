// What is fixed about the backends that Triton and Galatea know by name. Any other name is a custom backend.

import { nearestWord } from '../base/nearest-word.ts'

export type KnownBackend = {
  readonly name: string
  /** The legacy `platform` values that mean this backend; the first is filled in when a configuration gives none. */
  readonly platforms: readonly string[]
  /** The file (or folder) inside the version folder; the first is what `default_model_filename` becomes. */
  readonly fileNames: readonly string[]
  /** Instances of a KIND_CPU group that gives no count. */
  readonly cpuInstanceCount: number
  /** The same for a KIND_GPU group, on each of its GPUs. With two, one copies while the other computes. */
  readonly gpuInstanceCount: number
  /** False: an instance group without a kind runs on the CPU, even where there are GPUs. */
  readonly usesGpus: boolean
}

const ensemblePlatform = 'ensemble'
export const tensorRtPlatform = 'tensorrt_plan'

const cpuOnly = new Set(['onnxruntime', 'openvino', 'sklearn', 'lightgbm', 'typescript', 'router'])

const backend = (
  name: string,
  platforms: readonly string[],
  fileNames: readonly string[],
  cpuInstanceCount = 1,
): KnownBackend => ({
  name,
  platforms,
  fileNames,
  cpuInstanceCount,
  gpuInstanceCount: name === 'onnxruntime' ? 2 : 1,
  usesGpus: !cpuOnly.has(name),
})

/** When a configuration names no backend, the files of a version folder are compared with these backends in this order. */
export const knownBackends: readonly KnownBackend[] = [
  backend('tensorflow', ['tensorflow_savedmodel', 'tensorflow_graphdef'], ['model.savedmodel', 'model.graphdef'], 2),
  backend('tensorrt', [tensorRtPlatform], ['model.plan']),
  backend('onnxruntime', ['onnxruntime_onnx'], ['model.onnx'], 2),
  backend('openvino', [], ['model.xml', 'model.onnx']),
  backend('pytorch', ['pytorch_libtorch', 'libtorch', 'torch_aoti'], ['model.pt', 'model.pt2']),
  backend('sklearn', [], ['model.skops', 'model.joblib', 'model.pkl']),
  backend('xgboost', [], ['model.ubj', 'model.json', 'xgboost.json', 'xgboost.ubj', 'xgboost.model']),
  backend('lightgbm', [], ['model.txt']),
  backend('llamacpp', [], ['model.gguf']),
  backend('vllm', [], ['model.json']),
  backend('router', [], ['route.yaml']),
  backend('python', [], ['model.py']),
  backend('typescript', [], ['model.ts', 'model.js', 'model.mjs']),
]

const byName: ReadonlyMap<string, KnownBackend> = new Map(knownBackends.map((known) => [known.name, known]))
const byPlatform: ReadonlyMap<string, KnownBackend> = new Map(
  knownBackends.flatMap((known) => known.platforms.map((platform) => [platform, known] as const)),
)

export const knownBackend = (name: string): KnownBackend | null => byName.get(name) ?? null
export const backendOfPlatform = (platform: string): KnownBackend | null => byPlatform.get(platform) ?? null
export const isEnsemble = (config: { readonly platform: string }): boolean => config.platform === ensemblePlatform

/** Backends of Triton that Galatea does not have, and what to do with their models. */
const absentBackends: ReadonlyMap<string, string> = new Map([
  ['tensorrt', 'export the model to ONNX, or run the engine file from a Python model'],
  ['dali', 'do the same work in a Python model in front, joined by an ensemble'],
  ['fil', 'XGBoost and LightGBM files have backends of their own: write backend: "xgboost" or "lightgbm"'],
  ['tensorrtllm', 'run TensorRT-LLM beside this server, or call it from a Python model'],
])

/** What people write in place of the name of a backend. */
const usualNames: ReadonlyMap<string, string> = new Map([
  ['onnx', 'onnxruntime'],
  ['ort', 'onnxruntime'],
  ['torch', 'pytorch'],
  ['libtorch', 'pytorch'],
  ['tf', 'tensorflow'],
  ['scikit-learn', 'sklearn'],
  ['py', 'python'],
  ['llama.cpp', 'llamacpp'],
  ['llama', 'llamacpp'],
  ['gguf', 'llamacpp'],
  ['ts', 'typescript'],
  ['javascript', 'typescript'],
  ['js', 'typescript'],
])

export const shippedBackends: readonly string[] = [
  ...knownBackends.map(({ name }) => name).filter((name) => !absentBackends.has(name)),
  'identity',
  'torchserve',
]

/** The backend that was most likely meant by a name that no backend has. */
export const meantBackend = (name: string): string | null =>
  usualNames.get(name.toLowerCase()) ?? nearestWord(name, shippedBackends)

/** What to do about a backend that the server does not have. */
export function backendAdvice(name: string): string {
  const absent = absentBackends.get(name)
  if (absent !== undefined) {
    const library = `or bring Triton's own: libtriton_${name}.so in <backend-directory>/${name}`
    return `'${name}' is a backend of Triton's that Galatea does not have: ${absent}; ${library}`
  }
  const meant = meantBackend(name)
  if (meant !== null) return `did you mean '${meant}'?`
  const own = `Galatea's own backends are ${shippedBackends.join(', ')}`
  return `${own}; any other is found as libtriton_${name}.so, backend.ts or model.py in <backend-directory>/${name}`
}

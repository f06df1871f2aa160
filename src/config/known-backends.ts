// What is fixed about the backends that Triton and Galatea know by name. Any other name is a custom backend.

export type KnownBackend = {
  readonly name: string
  /** The legacy `platform` values that mean this backend; the first is filled in when a configuration gives none. */
  readonly platforms: readonly string[]
  /** The file (or folder) inside the version folder; the first is what `default_model_filename` becomes. */
  readonly fileNames: readonly string[]
  /** Instances of a KIND_CPU group that gives no count. */
  readonly cpuInstanceCount: number
  /** False: an instance group without a kind runs on the CPU, even where there are GPUs. */
  readonly usesGpus: boolean
}

const ensemblePlatform = 'ensemble'
export const tensorRtPlatform = 'tensorrt_plan'

const cpuOnly = new Set(['onnxruntime', 'openvino', 'sklearn', 'lightgbm', 'typescript'])

const backend = (
  name: string,
  platforms: readonly string[],
  fileNames: readonly string[],
  cpuInstanceCount = 1,
): KnownBackend => ({ name, platforms, fileNames, cpuInstanceCount, usesGpus: !cpuOnly.has(name) })

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

import type { ModelConfig } from '../config/model-config.ts'
import { readParameter } from '../config/model-parameters.ts'
import { activeGroups } from '../config/scale-limits.ts'

type ThreadParameter =
  | 'intra_op_thread_count'
  | 'INTRA_OP_THREAD_COUNT'
  | 'TF_NUM_INTRA_THREADS'
  | 'INFERENCE_NUM_THREADS'
  | 'n_threads'
  | 'threads'

/** The parameter with the threads of one instance, of backends that compute on the cores of the server all the time. */
const threadParameters = new Map<string, ThreadParameter>([
  ['onnxruntime', 'intra_op_thread_count'],
  ['pytorch', 'INTRA_OP_THREAD_COUNT'],
  ['tensorflow', 'TF_NUM_INTRA_THREADS'],
  ['openvino', 'INFERENCE_NUM_THREADS'],
  ['llamacpp', 'n_threads'],
  ['xgboost', 'threads'],
  ['lightgbm', 'threads'],
  ['sklearn', 'threads'],
])

/**
 * How many instances the cores can keep busy. Infinity where that is not known: the code of a Python or TypeScript model may wait for
 * something else than a core.
 */
export function coreBound(config: ModelConfig, coreCount: number): number {
  const parameter = threadParameters.get(config.backend)
  if (parameter === undefined || activeGroups(config).some(({ kind }) => kind === 'KIND_GPU')) return Infinity
  const threads: unknown = readParameter(config, parameter)
  return Math.max(1, Math.floor(coreCount / Math.max(1, Number(threads ?? 1) || 1)))
}

// Settings of --backend-config that nobody reads, because a letter is wrong. Backends may read any key, so only what is nearly a known word is told.

import { nearestWord } from '../base/nearest-word.ts'
import { meantBackend, shippedBackends } from './known-backends.ts'

const ofAll = ['default-max-batch-size']
const ofNative = [
  'engine',
  'host',
  'tritonserver-library',
  'models',
  'pinned-memory-byte-size',
  'cuda-memory-byte-size',
]
const ofPython = [
  'interpreter',
  'shm-default-byte-size',
  'shm-max-byte-size',
  'shm-inline-byte-size',
  'shm-growth-byte-size',
  'shm-region-prefix-name',
  'shm_message_queue_size',
  'shared-memory',
  'stub-timeout-seconds',
  'environment-directory',
  'thread-pool-size',
]
const ofOnnx = [
  'binding',
  'library-path',
  'interpreter',
  'enable-global-threadpool',
  'intra_op_thread_count',
  'inter_op_thread_count',
  'max-threads',
]

const wordsOf: ReadonlyMap<string, readonly string[]> = new Map([
  ['', ['interpreter', ...ofAll]],
  ['onnxruntime', [...ofOnnx, ...ofNative, ...ofAll]],
  ['llamacpp', ['library-path', ...ofAll]],
  ...['python', 'lightgbm', 'openvino', 'pytorch', 'sklearn', 'tensorflow', 'torchserve', 'vllm', 'xgboost'].map(
    (name) => [name, [...ofPython, ...ofNative, ...ofAll]] as const,
  ),
])

/** One line for each setting that was most likely meant to be another one. `isThere` says whether there is a backend of that name. */
export function backendSettingMistakes(
  backendConfig: ReadonlyMap<string, ReadonlyMap<string, string>>,
  isThere: (backend: string) => boolean,
): string[] {
  const lines: string[] = []
  for (const [backend, settings] of backendConfig) {
    const meant = backend === '' || shippedBackends.includes(backend) || isThere(backend) ? null : meantBackend(backend)
    if (meant !== null)
      lines.push(`--backend-config=${backend},…: there is no backend '${backend}'; did you mean '${meant}'?`)
    const words = wordsOf.get(backend) ?? []
    for (const key of settings.keys()) {
      const near = words.includes(key) ? null : nearestWord(key, words)
      if (near !== null)
        lines.push(
          `--backend-config=${backend === '' ? '' : `${backend},`}${key}: nothing reads '${key}'; did you mean '${near}'?`,
        )
    }
  }
  return lines
}

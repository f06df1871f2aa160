// `simple` as a model of Triton's own onnxruntime backend, with dynamic batching and one instance.

import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { exampleModels } from '../test/e2e/server-process.ts'

/** '' where there are no backends of Triton. */
export const backendDirectory = process.env['GALATEA_TRITON_BACKENDS'] ?? ''
export const backendLibrary = path.join(backendDirectory, 'onnxruntime/libtriton_onnxruntime.so')

const config = `backend: "onnxruntime"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "INPUT1" data_type: TYPE_INT32 dims: 16 } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: 16 }, { name: "OUTPUT1" data_type: TYPE_INT32 dims: 16 } ]
instance_group { count: 1 kind: KIND_CPU }
dynamic_batching { }
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`

export const createNativeRepository = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-native-'))
  await mkdir(path.join(root, 'simple/1'), { recursive: true })
  await cp(path.join(exampleModels, 'simple/1/model.onnx'), path.join(root, 'simple/1/model.onnx'))
  await writeFile(path.join(root, 'simple/config.pbtxt'), config)
  return { path: root, [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }) }
}

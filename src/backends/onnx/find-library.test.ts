import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { findLibrary, missingText, wantedLibraries } from './find-library.ts'

/** A Python that answers as one with these packages would. */
function pythonOf(t: TestContext, capi: boolean): { readonly root: string; readonly interpreter: string } {
  const root = mkdtempSync(path.join(tmpdir(), 'galatea-find-'))
  t.after(() => rmSync(root, { recursive: true }))
  const folders = ['packages/capi', 'packages/nvidia/cublas/lib', 'cuda/lib64'].map((name) => path.join(root, name))
  for (const folder of folders) mkdirSync(folder, { recursive: true })
  const [place = '', nvidia = ''] = folders
  if (capi) writeFileSync(path.join(place, 'libonnxruntime.so.1.31.1'), '')
  if (capi) writeFileSync(path.join(place, 'libonnxruntime_providers_cuda.so'), '')
  const answer = JSON.stringify({ program: '/its/python', capi: [place], folders: [nvidia] })
  const interpreter = path.join(root, 'python3')
  writeFileSync(interpreter, `#!/bin/sh\nfor last; do :; done\n[ "$last" = tensorrt_libs ] && echo '${answer}'\n`, {
    mode: 0o755,
  })
  return { root, interpreter }
}

const skip = process.platform === 'win32' ? 'the stand-in for Python is a shell script' : false

test(
  'libraries of CUDA are looked for in the packages of the Python, then in the folders that all backends know',
  { skip },
  async (t) => {
    const { root, interpreter } = pythonOf(t, true)
    const environment = { ...process.env, CUDA_HOME: path.join(root, 'cuda') }
    const found = await findLibrary({ libraryPath: '', interpreter, environment, gpuCount: 1 })
    assert.equal(found.gpuObstacle, null)
    assert.equal(found.origin, 'onnxruntime-gpu of /its/python')
    const [first, second] = ['packages/nvidia/cublas/lib', 'cuda/lib64'].map((name) => path.join(root, name))
    assert.deepEqual(found.folders.slice(0, 2), [first, second])
    const cudnn = path.join(root, 'cuda/lib64/libcudnn.so.9')
    writeFileSync(cudnn, '')
    const wanted = await wantedLibraries(found, 'cuda')
    assert.deepEqual(wanted.find(({ name }) => name === 'libcudnn.so.9')?.files, [cudnn])
  },
)

test('what keeps models from the GPU is told with what to do', { skip }, async (t) => {
  const { interpreter } = pythonOf(t, false)
  const search = { libraryPath: '', interpreter, environment: process.env, gpuCount: 1 }
  const obstacle = async (more: Partial<typeof search>): Promise<string> =>
    (await findLibrary({ ...search, ...more })).gpuObstacle ?? ''
  assert.match(
    await obstacle({}),
    /without its CUDA provider: run 'pip uninstall onnxruntime && pip install "onnxruntime-gpu/,
  )
  assert.match(await obstacle({ interpreter: '/no/python' }), /cannot be asked.*--python PATH.*onnxruntime-gpu/)
  assert.match(await obstacle({ gpuCount: 0 }), /no GPU was found/)
  await assert.rejects(findLibrary({ ...search, libraryPath: '/no/folder' }), /library-path=\/no\/folder: expected/)
  const missing = missingText('tensorrt', ['libnvinfer.so.10', 'libcudart.so.13'])
  assert.match(
    missing,
    /lacks libnvinfer\.so\.10, libcudart\.so\.13\. Install TensorRT: 'pip install tensorrt-cu13'; the CUDA 13/,
  )
})

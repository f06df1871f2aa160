// Which ONNX Runtime the server uses, and whether it can run models on GPUs. In this order: the library that the operator
// names, the onnxruntime-gpu package of the configured Python where there is a GPU, the library that comes with the server.

import { execFile } from 'node:child_process'
import fs from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { cudaFolders, packagePatterns } from '../../cuda/cuda-libraries.ts'
import { neededLibraries } from '../elf-file.ts'
import { onnxRuntimeLibrary } from './onnx-runtime-package.ts'

export type FoundLibrary = {
  readonly file: string
  /** How it was found, for the log. */
  readonly origin: string
  /** Null: GPUs can be used. Otherwise why not, and what to do. */
  readonly gpuObstacle: string | null
  /** Folders with NVIDIA's libraries, beside those that the system knows. */
  readonly folders: readonly string[]
}

export type LibrarySearch = {
  /** `--backend-config=onnxruntime,library-path=…`: a file or a folder; '' for none. */
  readonly libraryPath: string
  readonly interpreter: string
  readonly environment: NodeJS.ProcessEnv
  readonly gpuCount: number
}

/** A Python that does not answer must not keep the server from starting. */
const pythonTimeoutMs = 20_000

const providerFile = 'libonnxruntime_providers_cuda.so'
const install = 'pip install "onnxruntime-gpu[cuda,cudnn]"'

/** Does not import the package: that alone takes a second. */
const question = `
import glob, importlib.util, json, os, sys
spec = importlib.util.find_spec("onnxruntime")
places = list(spec.submodule_search_locations or []) if spec else []
print(json.dumps({
  "program": sys.executable,
  "capi": [os.path.join(place, "capi") for place in places],
  "folders": [folder for place in sys.path for pattern in sys.argv[1:] for folder in sorted(glob.glob(os.path.join(place, pattern)))],
}))
`

type PythonAnswer = { readonly program: string; readonly capi: readonly string[]; readonly folders: readonly string[] }

export async function findLibrary(search: LibrarySearch): Promise<FoundLibrary> {
  if (search.libraryPath !== '') return namedLibrary(search)
  if (search.gpuCount === 0) return bundledLibrary('no GPU was found on this machine', [])
  const asked = await askPython(search)
  if (typeof asked === 'string')
    return bundledLibrary(`${asked}: name one with --python PATH, and give it '${install}'`, [])
  for (const folder of asked.capi) {
    const file = await libraryIn(folder)
    if (file !== null && (await isFile(path.join(folder, providerFile)))) {
      return { file, origin: `onnxruntime-gpu of ${asked.program}`, gpuObstacle: null, folders: asked.folders }
    }
  }
  const what = asked.capi.length === 0 ? 'has no onnxruntime-gpu' : 'has onnxruntime without its CUDA provider'
  const swap = asked.capi.length === 0 ? install : `pip uninstall onnxruntime && ${install}`
  return bundledLibrary(`the Python ${asked.program} ${what}: run '${swap}' with it`, asked.folders)
}

async function namedLibrary({ libraryPath, ...search }: LibrarySearch): Promise<FoundLibrary> {
  const file = (await isFile(libraryPath)) ? libraryPath : await libraryIn(libraryPath)
  if (file === null) {
    throw new ServerError(
      'INVALID_ARG',
      `--backend-config=onnxruntime,library-path=${libraryPath}: expected libonnxruntime.so or a folder that has it, found neither`,
    )
  }
  const hasProvider = await isFile(path.join(path.dirname(file), providerFile))
  const asked = hasProvider && search.gpuCount > 0 ? await askPython({ ...search, libraryPath }) : null
  return {
    file,
    origin: 'library-path',
    gpuObstacle: hasProvider ? null : `there is no ${providerFile} beside ${file}: it is an ONNX Runtime without CUDA`,
    folders: asked === null || typeof asked === 'string' ? cudaFolders(search.environment) : asked.folders,
  }
}

async function bundledLibrary(obstacle: string, folders: readonly string[]): Promise<FoundLibrary> {
  const file = onnxRuntimeLibrary()
  const hasProvider = await isFile(path.join(path.dirname(file), providerFile))
  return { file, origin: 'bundled', gpuObstacle: hasProvider ? null : obstacle, folders }
}

/** A text says why there is no answer. */
async function askPython({ interpreter, environment }: LibrarySearch): Promise<PythonAnswer | string> {
  try {
    const run = promisify(execFile)
    const { stdout } = await run(interpreter, ['-c', question, ...packagePatterns], {
      env: environment,
      timeout: pythonTimeoutMs,
    })
    const answer = JSON.parse(stdout) as PythonAnswer
    return { ...answer, folders: [...new Set([...answer.folders, ...cudaFolders(environment)])] }
  } catch (reason) {
    return `the Python '${interpreter}' cannot be asked for onnxruntime-gpu (${messageOf(reason).split('\n')[0]})`
  }
}

/** `libonnxruntime.so`, or the one with a version behind it. */
async function libraryIn(folder: string): Promise<string | null> {
  const names = await fs.readdir(folder).catch(() => [])
  const fitting = names.filter((name) => /^libonnxruntime\.so(\.[\d.]+)?$/.test(name)).sort()
  return fitting[0] === undefined ? null : path.join(folder, fitting[0])
}

const isFile = async (file: string): Promise<boolean> => (await fs.stat(file).catch(() => null))?.isFile() === true

/** What a provider needs and the C library does not bring; the dependencies of cuDNN are loaded when a model needs them. */
const ofTheSystem = /^(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|onnxruntime.*)\.so)/
const optional = ['libnvJitLink.so.{major}', 'libnvrtc.so.{major}', 'libcudnn.so.9', 'libcufft.so.12', 'libcufft.so.11']

export type WantedLibrary = { readonly name: string; readonly files: readonly string[]; readonly isOptional: boolean }

/** The libraries to load before the provider, with the files that may have them. */
export async function wantedLibraries(
  { file, folders }: FoundLibrary,
  provider: 'cuda' | 'tensorrt',
): Promise<WantedLibrary[]> {
  const needed = await neededLibraries(path.join(path.dirname(file), `libonnxruntime_providers_${provider}.so`))
  const own = needed.filter((name) => !ofTheSystem.test(name))
  const major = /libcudart\.so\.(\d+)/.exec(own.join(' '))?.[1] ?? ''
  const others = optional.map((name) => name.replace('{major}', major)).filter((name) => !own.includes(name))
  const present = await Promise.all(folders.map(async (folder) => [folder, await fs.readdir(folder)] as const))
  const filesOf = (name: string): string[] =>
    present.filter(([, names]) => names.includes(name)).map(([folder]) => path.join(folder, name))
  return [
    ...own.map((name) => ({ name, files: filesOf(name), isOptional: false })),
    ...others.map((name) => ({ name, files: filesOf(name), isOptional: true })),
  ]
}

const packages: readonly (readonly [pattern: RegExp, what: string])[] = [
  [/^libcuda\.so/, "the driver of NVIDIA ('nvidia-smi' must work; in a container: --gpus all)"],
  [/^libcudnn/, "cuDNN: 'pip install nvidia-cudnn-cu{major}'"],
  [/^libnv(infer|onnxparser)/, "TensorRT: 'pip install tensorrt-cu{major}'"],
  [
    /^lib(cublas|cudart|curand|cufft|nvrtc)/,
    'the CUDA {major} libraries: \'pip install "onnxruntime-gpu[cuda,cudnn]"\'',
  ],
]

/** Which libraries a provider lacks, each with what brings it. */
export function missingText(provider: 'cuda' | 'tensorrt', missing: readonly string[]): string {
  const major = /\.so\.(1[2-9])\b/.exec(missing.join(' '))?.[1] ?? '13'
  const remedies = missing.map((name) => packages.find(([pattern]) => pattern.test(name))?.[1] ?? `the library ${name}`)
  const install = [...new Set(remedies)].map((text) => text.replaceAll('{major}', major)).join('; ')
  const title = provider === 'cuda' ? 'CUDA' : 'TensorRT'
  return `the ${title} provider of ONNX Runtime lacks ${missing.join(', ')}. Install ${install}`
}

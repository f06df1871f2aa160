// Picks the binding to ONNX Runtime: its C API, or, on platforms without it, onnxruntime-node's JavaScript API.

import { isMainThread } from 'node:worker_threads'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { switchTelemetryOff } from '../../base/telemetry-off.ts'
import type { Gpus } from '../../cuda/gpus.ts'
import { threadSettings } from './backend-settings.ts'
import type { FoundLibrary } from './find-library.ts'
import { onnxRuntimeLibrary } from './onnx-runtime-package.ts'
import type { NativeSettings } from './native/native-binding.ts'
import type { OnnxBinding } from './onnx-session.ts'

type OpenNative = (clock: Clock, settings: NativeSettings) => Promise<OnnxBinding>

// The native binding is imported only when it is used: on a platform without koffi the import itself fails.
const openNativeBinding: OpenNative = async (clock, settings) => {
  const { NativeBinding } = await import('./native/native-binding.ts')
  return NativeBinding.open(clock, settings)
}

type BindingDependencies = {
  readonly clock: Clock
  readonly log: Log
  readonly openNative?: OpenNative
  readonly environment?: NodeJS.ProcessEnv
  readonly gpus?: Gpus | null
  readonly interpreter?: string
}

/** `binding` in the backend's settings, or GALATEA_ONNX_BINDING, may be `javascript`. */
export async function openBinding(
  dependencies: BindingDependencies,
  settings: ReadonlyMap<string, string>,
): Promise<OnnxBinding> {
  const { clock, log, openNative = openNativeBinding, environment = process.env, gpus = null } = dependencies
  const wanted = settings.get('binding') ?? environment['GALATEA_ONNX_BINDING'] ?? ''
  if (wanted === 'javascript') {
    log.warning('ONNX models are run through onnxruntime-node, as the settings ask for; this is slower')
    return openJavaScript()
  }
  const { warnings, ...threads } = threadSettings(settings)
  for (const warning of warnings) log.warning(warning)
  const library = await foundLibrary(dependencies, settings)
  if (library !== null && library.origin !== 'bundled') {
    try {
      const binding = await openNative(clock, { ...threads, library, gpus })
      log.info(`ONNX Runtime is ${library.file} (${library.origin})`)
      return binding
    } catch (reason) {
      // What the operator named is used or refused. What was found is not worth losing the models on the CPU for.
      const text = `ONNX Runtime in ${library.file} cannot be used: ${messageOf(reason)}`
      if (settings.has('library-path')) throw new ServerError('INVALID_ARG', text)
      log.warning(`${text}. Models run on the CPU`)
      return openNative(clock, {
        ...threads,
        library: { ...library, file: onnxRuntimeLibrary(), gpuObstacle: text },
        gpus,
      })
    }
  }
  try {
    return await openNative(clock, { ...threads, library, gpus })
  } catch (reason) {
    log.warning(
      'the C API of ONNX Runtime cannot be called here, ONNX models are run through onnxruntime-node; this is slower',
      { reason: messageOf(reason), platform: `${process.platform}-${process.arch}` },
    )
    return openJavaScript()
  }
}

/** Null: the one that comes with the server, and no GPU to ask for. */
async function foundLibrary(
  { gpus = null, interpreter = 'python3', environment = process.env }: BindingDependencies,
  settings: ReadonlyMap<string, string>,
): Promise<FoundLibrary | null> {
  const libraryPath = settings.get('library-path') ?? ''
  const gpuCount = gpus?.count ?? 0
  if (libraryPath === '' && gpuCount === 0) return null
  const { findLibrary } = await import('./find-library.ts')
  const python = settings.get('interpreter') ?? interpreter
  return findLibrary({ libraryPath, interpreter: python, environment, gpuCount })
}

async function openJavaScript(): Promise<OnnxBinding> {
  await silenceOnnxRuntime()
  const { JavaScriptBinding } = await import('./fallback/javascript-binding.ts')
  return new JavaScriptBinding()
}

/** Must precede the import of onnxruntime-node, in the thread that has the variables of the process. */
async function silenceOnnxRuntime(): Promise<void> {
  switchTelemetryOff(process.env)
  if (isMainThread) return
  try {
    const { switchTelemetryOffNatively } = await import('./native/ort-library.ts')
    switchTelemetryOffNatively()
  } catch (reason) {
    throw new ServerError(
      'UNSUPPORTED',
      `the telemetry of ONNX Runtime cannot be switched off from a worker thread here (${messageOf(reason)}): ` +
        'open the engine in the main thread',
    )
  }
}

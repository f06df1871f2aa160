// Picks the binding to ONNX Runtime: its C API, or, on platforms without it, onnxruntime-node's JavaScript API.

import { isMainThread } from 'node:worker_threads'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { switchTelemetryOff } from '../../base/telemetry-off.ts'
import type { NativeSettings } from './native/native-binding.ts'
import type { OnnxBinding } from './onnx-session.ts'

type OpenNative = (clock: Clock, settings: NativeSettings) => Promise<OnnxBinding>

// The native binding is imported only when it is used: on a platform without koffi the import itself fails.
const openNativeBinding: OpenNative = async (clock, settings) => {
  const { NativeBinding } = await import('./native/native-binding.ts')
  return NativeBinding.open(clock, settings)
}

/** `binding` in the backend's settings, or GALATEA_ONNX_BINDING, may be `javascript`. */
export async function openBinding(
  dependencies: { clock: Clock; log: Log; openNative?: OpenNative; environment?: NodeJS.ProcessEnv },
  settings: ReadonlyMap<string, string>,
): Promise<OnnxBinding> {
  const { clock, log, openNative = openNativeBinding, environment = process.env } = dependencies
  const wanted = settings.get('binding') ?? environment['GALATEA_ONNX_BINDING'] ?? ''
  if (wanted === 'javascript') {
    log.warning('ONNX models are run through onnxruntime-node, as the settings ask for; this is slower')
    return openJavaScript()
  }
  try {
    return await openNative(clock, {
      maxThreads: count(settings, 'max-threads'),
      globalThreads: globalThreads(settings),
    })
  } catch (reason) {
    log.warning(
      'the C API of ONNX Runtime cannot be called here, ONNX models are run through onnxruntime-node; this is slower',
      { reason: messageOf(reason), platform: `${process.platform}-${process.arch}` },
    )
    return openJavaScript()
  }
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

function globalThreads(settings: ReadonlyMap<string, string>): { intraOp: number; interOp: number } | null {
  if (settings.get('enable-global-threadpool') !== '1') return null
  return { intraOp: count(settings, 'intra_op_thread_count'), interOp: count(settings, 'inter_op_thread_count') }
}

function count(settings: ReadonlyMap<string, string>, key: string): number {
  const text = settings.get(key) ?? ''
  return /^\d{1,4}$/.test(text) ? Number(text) : 0
}

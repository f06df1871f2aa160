// Libraries that report to their makers are told not to, before they are loaded.
//
// ONNX Runtime 1.29 and newer reads the variable when it creates its OrtEnv. Without the variable it keeps a device id and
// a database under the user's cache folder, a log in the temporary folder, and sends names of models and times of runs.

/** The variables and their values. A value in the server's environment does not stand against them. */
export const telemetryOff = { ORT_DISABLE_TELEMETRY: '1' } as const

/** For this process and all processes that it starts. In a worker thread only for the latter: its variables are a copy. */
export function switchTelemetryOff(environment: NodeJS.ProcessEnv): void {
  Object.assign(environment, telemetryOff)
}

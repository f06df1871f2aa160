// What the processes of models get of the server's environment. A server's environment holds secrets: keys of the cloud,
// tokens, passwords of databases. A model does not need them, and what a model prints or uploads should not hold them.

import { switchTelemetryOff } from './telemetry-off.ts'

/** Where programs and files are found, in which language and time zone, and how libraries use the machine. */
const passedNames: ReadonlySet<string> = new Set([
  'PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LANGUAGE', 'TZ', 'TMPDIR', 'TMP', 'TEMP', 'XDG_CACHE_HOME', 'LD_LIBRARY_PATH',
  'LD_PRELOAD', 'DYLD_LIBRARY_PATH', 'VIRTUAL_ENV', 'CONDA_PREFIX', 'CONDA_DEFAULT_ENV', 'NODE_COMPILE_CACHE', 'NODE_OPTIONS',
  'SYSTEMROOT', 'WINDIR', 'COMSPEC', 'PATHEXT', 'APPDATA', 'LOCALAPPDATA', 'USERPROFILE',
]) // prettier-ignore
const passedPrefixes =
  /^(?:LC_|CUDA_|CUDNN_|CUBLAS_|NVIDIA_|NCCL_|PYTHON|PYENV_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|BLIS_|NUMEXPR_|MALLOC_|TORCH_|PYTORCH_|TF_|XLA_|ONEDNN_|DNNL_|OV_)/
/** A name like these is a secret's, whatever it begins with. */
const secretWords = /TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY/

/**
 * `more` are the values of `--python-env`: `NAME` passes the server's value on, `NAME=VALUE` sets one, `*` passes everything.
 * Null passes everything too.
 */
export function workerEnvironment(
  more: readonly string[] | null,
  environment: NodeJS.ProcessEnv = process.env,
): NodeJS.ProcessEnv {
  const isPassed = (name: string): boolean =>
    passedNames.has(name) || (passedPrefixes.test(name) && !secretWords.test(name))
  const passesAll = more === null || more.includes('*')
  const passed = Object.fromEntries(Object.entries(environment).filter(([name]) => passesAll || isPassed(name)))
  switchTelemetryOff(passed)
  for (const entry of more ?? []) {
    const equals = entry.indexOf('=')
    const name = equals < 0 ? entry : entry.slice(0, equals)
    const value = equals < 0 ? environment[name] : entry.slice(equals + 1)
    if (name !== '*' && value !== undefined) passed[name] = value
  }
  return passed
}

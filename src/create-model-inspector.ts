// The backends' knowledge of their files, for `galatea check`.

import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { createBackendFinder } from './backend-registry.ts'
import { completeChatConfig, completeLanguageConfig } from './backends/complete-language-config.ts'
import { completeConfig, isComplete } from './backends/onnx/auto-complete.ts'
import { defaultMaxBatchSizeIn } from './backends/onnx/backend-settings.ts'
import { parseOnnxSettings } from './backends/onnx/session-settings.ts'
import { PythonParser } from './backends/python/python-parser.ts'
import { readRouteFile } from './backends/router/route-plan.ts'
import { vllmProblems } from './backends/vllm-problems.ts'
import { parsePythonSettings } from './backends/python/python-settings.ts'
import { scriptProblems } from './backends/typescript/script-problems.ts'
import { silentLog } from './base/log.ts'
import { messageOf } from './base/server-error.ts'
import { workerEnvironment } from './base/worker-environment.ts'
import type { ModelConfig } from './config/model-config.ts'
import { ModelSignature } from './config/model-signature.ts'
import { readParameter } from './config/model-parameters.ts'
import { warmUp } from './engine/serving/warm-up.ts'
import { readGgufFile } from './llm/gguf-file.ts'
import type { FileProblem } from './model/file-problem.ts'
import { idPrefix } from './model/id-prefix.ts'
import { countGpus } from './open-gpus.ts'
import { readOnnxFile, type OnnxFileTensor } from './onnx-file/onnx-file.ts'
import { readOnnxSignature } from './onnx-file/onnx-signature.ts'
import type { EngineSettings } from './options/server-options.ts'
import { readInitialStates } from './repository/initial-states.ts'
import type { ModelInspector } from './repository/model-inspector.ts'
import { executedSignature } from './scheduling/sequence-signature.ts'

export type InspectorSettings = Pick<
  EngineSettings,
  'backendConfig' | 'backendDirectory' | 'allowsPickleModels' | 'pythonEnvironment' | 'minComputeCapability'
>

export function createModelInspector(settings: InspectorSettings): ModelInspector {
  const { backendConfig } = settings
  const settingsOf = (backend: string): Map<string, string> =>
    new Map([...(backendConfig.get('') ?? []), ...(backendConfig.get(backend) ?? [])])
  const hasBackend = createBackendFinder(settings)
  const { interpreter } = parsePythonSettings(settingsOf('python'))
  const parser = new PythonParser(interpreter, workerEnvironment(settings.pythonEnvironment))

  return {
    gpuCount: countGpus(settings),
    leastCapability: settings.minComputeCapability,
    hasBackend,
    readSignature: readOnnxSignature,
    complete: async (config, file) => {
      if (config.backend === 'llamacpp') return completeLanguageConfig(config)
      if (config.backend === 'router') return completeChatConfig(config)
      if (config.backend !== 'onnxruntime' || isComplete(config)) return config
      const maxBatchSize = defaultMaxBatchSizeIn(settingsOf('onnxruntime'))
      const { inputs, outputs } = await readOnnxFile(file)
      return completeConfig(config, { inputs: inputs.map(specOf), outputs: outputs.map(specOf) }, maxBatchSize)
    },
    problemsOf: async (config, file, modelDirectory) => {
      const pointer = await pointerProblem(file)
      if (pointer !== null) return [pointer]
      if (config.backend === 'typescript') return scriptProblems(file)
      if (config.backend === 'python') return pythonProblems(parser, config, file, modelDirectory)
      if (config.backend === 'llamacpp') return ggufProblems(file)
      if (config.backend === 'vllm') return vllmProblems(file)
      if (config.backend === 'router') return (await readRouteFile(file, config.name)).problems
      return config.backend === 'sklearn' && !settings.allowsPickleModels ? pickleProblems(config, file) : []
    },
    warningsOf: async (config, file) => {
      if (config.backend === 'onnxruntime') return onnxWarnings(config, file)
      if (config.backend === 'router') return routeWarnings(config, file)
      return config.backend === 'python' ? pythonWarnings(parser, config, file, interpreter) : []
    },
    warmUpProblem,
    close: () => parser.close(),
  }
}

/** A router loads without its models, and refuses every request then. They may be in another repository. */
async function routeWarnings({ name }: ModelConfig, file: string): Promise<FileProblem[]> {
  const { plan } = await readRouteFile(file, name)
  const repository = path.resolve(file, '../../..')
  const missing = (plan?.models ?? []).filter((model) => !existsSync(path.join(repository, model)))
  const fix = 'add the model, or correct its name, unless another repository of the server has it'
  return missing.map((model) =>
    whole(file, `the route names the model '${model}', which is not in this repository`, fix),
  )
}

/** With no instances the samples are read and checked, and run nowhere. */
async function warmUpProblem(config: ModelConfig, modelDirectory: string): Promise<string | null> {
  try {
    const signature =
      config.sequenceBatching === null ? new ModelSignature(config, new Map()) : executedSignature(config)
    const initialStates = await readInitialStates(config, modelDirectory)
    await warmUp(silentLog, { config, signature, modelDirectory, initialStates }, [])
    return null
  } catch (reason) {
    return messageOf(reason).replace(idPrefix(''), '')
  }
}

const whole = (file: string, message: string, fix: string): FileProblem => ({
  file,
  line: null,
  column: null,
  message,
  fix,
})

const specOf = ({
  name,
  dataType,
  typeText,
  shape,
}: OnnxFileTensor): Parameters<typeof completeConfig>[1]['inputs'][number] => ({
  name,
  dataType,
  typeText,
  symbols: [],
  shape: shape?.map((dim) => (typeof dim === 'number' ? dim : -1)) ?? null,
})

/** A file that Git LFS has not fetched yet is a short text. */
async function pointerProblem(file: string): Promise<FileProblem | null> {
  const opened = await open(file)
  try {
    const { buffer, bytesRead } = await opened.read(Buffer.alloc(64), 0, 64, 0).catch(() => nothingRead)
    if (!buffer.toString('latin1', 0, bytesRead).startsWith('version https://git-lfs.github.com/')) return null
    const fix = "run 'git lfs pull' where the repository was cloned, and copy the file again"
    return whole(file, 'the model file is a Git LFS pointer, not the model itself', fix)
  } finally {
    await opened.close()
  }
}
/** Of a folder. */
const nothingRead = { buffer: Buffer.alloc(0), bytesRead: 0 }

async function ggufProblems(file: string): Promise<FileProblem[]> {
  try {
    await readGgufFile(file)
    return []
  } catch (reason) {
    return [whole(file, messageOf(reason), 'download or convert the file again')]
  }
}

function onnxWarnings(config: ModelConfig, file: string): FileProblem[] {
  try {
    return parseOnnxSettings(config).warnings.map((message) => whole(file, message, ''))
  } catch {
    // The rules of the configuration tell it, with its place.
    return []
  }
}

async function pythonProblems(
  parser: PythonParser,
  config: ModelConfig,
  file: string,
  modelDirectory: string,
): Promise<FileProblem[]> {
  const environment = readParameter(config, 'EXECUTION_ENV_PATH')
  if (environment !== null && environment !== '') {
    const place = path.resolve(environment.replaceAll('$$TRITON_MODEL_DIRECTORY', () => modelDirectory))
    const fix = 'EXECUTION_ENV_PATH must name an archive or a folder that is there'
    // The Python of that environment may know other syntax than the one at hand.
    return existsSync(place) ? [] : [whole(file, `Failed to get the canonical path for ${place}.`, fix)]
  }
  const facts = await parser.factsOf(file)
  if (facts === null) return []
  if (facts.error !== null) {
    return [{ file, line: facts.line, column: facts.column, message: facts.error, fix: 'the file does not parse' }]
  }
  if (facts.isAbsent) {
    const fix = 'a model.py has a class TritonPythonModel with a method execute(self, requests)'
    return [whole(file, "the module has no attribute 'TritonPythonModel'", fix)]
  }
  return []
}

async function pythonWarnings(
  parser: PythonParser,
  config: ModelConfig,
  file: string,
  interpreter: string,
): Promise<FileProblem[]> {
  if ((readParameter(config, 'EXECUTION_ENV_PATH') ?? '') !== '') return []
  const facts = await parser.factsOf(file)
  if (facts === null) {
    const fix = 'install Python, or name one with --python=<path>'
    return [whole(file, `the file was not read, because there is no '${interpreter}' here`, fix)]
  }
  if (facts.error !== null) return []
  const warnings = []
  const ownPackages = readParameter(config, 'AUTO_INSTALL_REQUIREMENTS') === true
  for (const module of ownPackages ? [] : facts.missing) {
    const fix = `pip install it there, name another with --python=<path>, or set AUTO_INSTALL_REQUIREMENTS`
    warnings.push(whole(file, `'${interpreter}' has no module '${module}', which the model imports`, fix))
  }
  const { methods } = facts
  if (methods !== null && !methods.includes('execute')) {
    warnings.push(whole(file, 'TritonPythonModel has no method execute', 'write execute(self, requests)'))
  }
  const isBare = config.input.length === 0 && config.output.length === 0
  if (isBare && methods !== null && !methods.includes('auto_complete_config')) {
    const message =
      'neither config.pbtxt nor the model names inputs and outputs: the model loads, and no request fits it'
    const fix = 'write input and output into config.pbtxt, or auto_complete_config into the model'
    warnings.push(whole(file, message, fix))
  }
  return warnings
}

/** As python/galatea_framework/model.py says at load. */
function pickleProblems({ name }: ModelConfig, file: string): FileProblem[] {
  if (!/\.(joblib|pkl|pickle)$/.test(file)) return []
  const message = `model '${name}' is a pickle ('${path.basename(file)}'): loading it runs any code that is in it`
  const fix =
    'start the server, and this check, with --allow-pickle-models if you trust its author; or save it with skops'
  return [whole(file, message, fix)]
}

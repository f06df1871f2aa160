// Finds the backend of a model whose configuration names none, from the files in its first version folder.

import { ServerError } from '../base/server-error.ts'
import {
  backendOfPlatform,
  isEnsemble,
  knownBackend,
  knownBackends,
  type KnownBackend,
} from '../config/known-backends.ts'
import type { ModelConfig } from '../config/model-config.ts'
import type { StoreEntryKind } from './repository-store.ts'

/** Names and kinds of what lies in the version folder. */
type VersionFiles = ReadonlyMap<string, StoreEntryKind>

/** Fills name, backend, platform and default_model_filename where they are empty. Throws when no backend fits. */
export function completeBackendFields(config: ModelConfig, modelName: string, files: VersionFiles): void {
  if (config.name === '') config.name = modelName
  if (isEnsemble(config)) return
  const known = config.backend === '' ? detectKnownBackend(config, files) : knownBackend(config.backend)
  if (known !== null) {
    fillFrom(known, config, files)
    return
  }
  if (config.backend === '' && config.platform === '' && config.defaultModelFilename === '') {
    const dot = modelName.indexOf('.')
    if (dot < 0) throw new ServerError('INVALID_ARG', undeterminable(modelName))
    config.backend = modelName.slice(dot + 1)
    config.defaultModelFilename = `model.${config.backend}`
  }
}

function detectKnownBackend(config: ModelConfig, files: VersionFiles): KnownBackend | null {
  if (config.platform !== '') return backendOfPlatform(config.platform)
  if (config.defaultModelFilename !== '') {
    return knownBackends.find((known) => known.fileNames.includes(config.defaultModelFilename)) ?? null
  }
  return knownBackends.find((known) => known.fileNames.some((fileName) => isModelFile(fileName, files))) ?? null
}

/** A SavedModel is a folder, an ONNX model may be one; the others are files. */
function isModelFile(fileName: string, files: VersionFiles): boolean {
  const kind = files.get(fileName)
  if (fileName === 'model.savedmodel') return kind === 'directory'
  return kind === 'file' || (fileName === 'model.onnx' && kind === 'directory')
}

function fillFrom(known: KnownBackend, config: ModelConfig, files: VersionFiles): void {
  config.backend = known.name
  const fileName =
    config.defaultModelFilename === ''
      ? known.fileNames.find((name) => isModelFile(name, files))
      : config.defaultModelFilename
  if (config.platform === '') config.platform = platformOf(known, fileName ?? '')
  if (known.name === 'tensorflow') return fillTensorFlow(known, config)
  if (config.defaultModelFilename === '') config.defaultModelFilename = fileName ?? known.fileNames[0] ?? ''
}

/** A backend with several platforms has its files in the same order: model.graphdef is second, and so is its platform. */
function platformOf(known: KnownBackend, fileName: string): string {
  if (known.name === 'tensorflow') return known.platforms[known.fileNames.indexOf(fileName)] ?? ''
  return fileName === 'model.pt2' ? 'torch_aoti' : (known.platforms[0] ?? '')
}

/** Only for TensorFlow does Triton need the platform: without it the model is refused a little later. */
function fillTensorFlow(known: KnownBackend, config: ModelConfig): void {
  if (config.defaultModelFilename !== '') return
  config.defaultModelFilename = known.fileNames[known.platforms.indexOf(config.platform)] ?? ''
}

const undeterminable = (modelName: string): string =>
  `Invalid model name: Could not determine backend for model '${modelName}' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.`

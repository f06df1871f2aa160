// Finds the backend for a file by the file's name, and the name of the file in a model repository.

import { statSync } from 'node:fs'
import path from 'node:path'
import { ServerError } from '../base/server-error.ts'

type ModelFormat = { readonly backend: string; readonly fileName: string }

const formats: Readonly<Record<string, ModelFormat>> = {
  '.onnx': { backend: 'onnxruntime', fileName: 'model.onnx' },
  '.gguf': { backend: 'llamacpp', fileName: 'model.gguf' },
  '.pt': { backend: 'pytorch', fileName: 'model.pt' },
  '.pth': { backend: 'pytorch', fileName: 'model.pt' },
  '.pt2': { backend: 'pytorch', fileName: 'model.pt2' },
  '.savedmodel': { backend: 'tensorflow', fileName: 'model.savedmodel' },
  '.graphdef': { backend: 'tensorflow', fileName: 'model.graphdef' },
  '.pb': { backend: 'tensorflow', fileName: 'model.graphdef' },
  '.xml': { backend: 'openvino', fileName: 'model.xml' },
  '.skops': { backend: 'sklearn', fileName: 'model.skops' },
  '.joblib': { backend: 'sklearn', fileName: 'model.joblib' },
  '.pkl': { backend: 'sklearn', fileName: 'model.pkl' },
  '.ubj': { backend: 'xgboost', fileName: 'model.ubj' },
  '.json': { backend: 'xgboost', fileName: 'model.json' },
  '.txt': { backend: 'lightgbm', fileName: 'model.txt' },
  '.lgb': { backend: 'lightgbm', fileName: 'model.txt' },
}

/** `…/resnet.pt` is of PyTorch, a folder with a saved_model.pb of TensorFlow. */
export function formatOf(file: string): ModelFormat {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) {
    throw new ServerError('NOT_FOUND', `there is no file or folder '${path.resolve(file)}'`)
  }
  const extension = path.extname(file).toLowerCase()
  const savedModel = formats['.savedmodel']
  const isSavedModel = statSync(path.join(file, 'saved_model.pb'), { throwIfNoEntry: false })?.isFile() === true
  const format = isSavedModel ? savedModel : Object.hasOwn(formats, extension) ? formats[extension] : undefined
  if (format !== undefined) return format
  if (extension === '.py' || extension === '.ts') {
    throw new ServerError(
      'INVALID_ARG',
      `'${file}' is code, and not a file of weights: 'galatea init --template ${extension === '.py' ? 'python' : 'typescript'}' makes the folders and the config.pbtxt of such a model; put your file in the place of its model${extension}`,
    )
  }
  throw new ServerError(
    'INVALID_ARG',
    `'${file}' is of no known format: expected a name that ends in ${Object.keys(formats).join(', ')}, the folder of a SavedModel, or a folder of Hugging Face (with a config.json)`,
  )
}

/** The name without the extension of the format. */
export function bareName(file: string): string {
  const base = path.basename(file)
  const extension = path.extname(base)
  return Object.hasOwn(formats, extension.toLowerCase()) ? base.slice(0, -extension.length) : base
}

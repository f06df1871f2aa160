// The names, types and shapes of an ONNX file, for checking a configuration without loading the model.

import { configDataType } from '../tensor/data-type.ts'
import type { FileSignature, TensorDescription } from '../config/compare-signature.ts'
import type { ConfigDataType } from '../config/model-config.ts'
import { readOnnxFile, type OnnxFileTensor } from './onnx-file.ts'

/** Null when the file is no .onnx, or leaves out a shape. Rejects when the file cannot be read. */
export async function readOnnxSignature(path: string): Promise<FileSignature | null> {
  if (!/\.onnx$/i.test(path)) return null
  const file = await readOnnxFile(path)
  const inputs = file.inputs.map(describe)
  const outputs = file.outputs.map(describe)
  if (!inputs.every((each) => each !== null) || !outputs.every((each) => each !== null)) return null
  return { inputs, outputs }
}

function describe({ name, dataType, shape }: OnnxFileTensor): TensorDescription | null {
  if (shape === null) return null
  const configType = dataType === null ? 'TYPE_INVALID' : (configDataType(dataType) as ConfigDataType)
  return { name, dataType: configType, shape: shape.map((dim) => (typeof dim === 'number' ? dim : -1)) }
}

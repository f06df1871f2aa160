// What `galatea inspect` and `galatea init` say of a GGUF file.

import { factsOfGguf } from '../llm/facts-of-gguf.ts'
import { readGgufFile } from '../llm/gguf-file.ts'
import { languageInputs, languageOutputs } from '../llm/language-tensors.ts'
import type { OnnxFileTensor } from '../onnx-file/onnx-file.ts'

type DescribedGguf = {
  readonly inputs: readonly OnnxFileTensor[]
  readonly outputs: readonly OnnxFileTensor[]
  readonly facts: Readonly<Record<string, string | number>>
}

const tensorOf = ({ name, dataType, dims, isOptional }: (typeof languageInputs)[number]): OnnxFileTensor => ({
  name,
  dataType,
  typeText: isOptional ? `${dataType} (optional)` : dataType,
  shape: dims.map((dim) => (dim < 0 ? null : dim)),
})

export async function describeGguf(file: string): Promise<DescribedGguf> {
  const header = await readGgufFile(file)
  const facts = factsOfGguf(header)
  const text = (key: string): string => String(header.values.get(key) ?? '')
  return {
    inputs: languageInputs.map(tensorOf),
    outputs: languageOutputs.map(tensorOf),
    facts: {
      name: text('general.name'),
      architecture: header.architecture,
      size: text('general.size_label'),
      license: text('general.license'),
      task: facts.kind,
      context: facts.contextLength,
      vocabulary: facts.vocabularySize,
      embedding: facts.embeddingLength,
      tensors: header.tensorCount,
      'chat template': facts.chatTemplate === undefined ? 'none' : `${facts.chatTemplate.length} characters`,
    },
  }
}

/** A config.pbtxt for the file, with the settings that are most often changed as comments. */
export async function ggufConfigText(name: string, file: string): Promise<string> {
  const { kind, contextLength } = factsOfGguf(await readGgufFile(file))
  const parameter = (key: string, value: number): string =>
    `# parameters { key: "${key}" value { string_value: "${value}" } }`
  return [
    `name: "${name}"`,
    'backend: "llamacpp"',
    '',
    `# The file is for '${kind}'. Inputs and outputs are those of every language model: docs/guide/serve-a-gguf.md.`,
    `# Tokens of a prompt and its answer together; the model was made for ${contextLength}:`,
    parameter('context_length', Math.min(contextLength, 8192)),
    '# Requests that are computed at the same time, and tokens that the memory of all of them holds:',
    parameter('max_sequences', 16),
    parameter('kv_cells', 16_384),
    '',
  ].join('\n')
}

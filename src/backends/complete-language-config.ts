import { configMessage, type ConfigDataType, type ModelConfig } from '../config/model-config.ts'
import { languageInputs, languageOutputs } from '../llm/language-tensors.ts'
import { configDataType } from '../tensor/data-type.ts'

/** Fills in what every language model has: the inputs, the outputs, and that it answers in pieces. */
export function completeLanguageConfig(draft: ModelConfig): ModelConfig {
  if (draft.input.length === 0) {
    draft.input = languageInputs.map(({ name, dataType, dims, isOptional }) =>
      configMessage('ModelInput', {
        name,
        dataType: configDataType(dataType) as ConfigDataType,
        dims: [...dims],
        optional: isOptional,
      }),
    )
  }
  if (draft.output.length === 0) {
    draft.output = languageOutputs.map(({ name, dataType, dims }) =>
      configMessage('ModelOutput', { name, dataType: configDataType(dataType) as ConfigDataType, dims: [...dims] }),
    )
  }
  draft.modelTransactionPolicy ??= { decoupled: true }
  return draft
}

/** Of a model that takes chats as they are, because templates are elsewhere. */
export function completeChatConfig(draft: ModelConfig): ModelConfig {
  const isBare = draft.input.length === 0
  const completed = completeLanguageConfig(draft)
  if (isBare) {
    completed.input.push(
      configMessage('ModelInput', { name: 'chat_request', dataType: 'TYPE_STRING', dims: [1], optional: true }),
    )
    completed.output.push(configMessage('ModelOutput', { name: 'chat_delta', dataType: 'TYPE_STRING', dims: [-1] }))
  }
  return completed
}

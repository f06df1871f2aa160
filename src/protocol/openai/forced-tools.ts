import type { ChatTool, ToolChoice } from './chat-messages.ts'

const anyObject = { type: 'object' }

/** The form that an answer must have so that it is a call of a tool, as vLLM forces it; null: the model is free. */
export function forcedSchema(tools: readonly ChatTool[], choice: ToolChoice, callsOnce: boolean): object | null {
  if (choice === 'none' || choice === 'auto') return null
  if (choice !== 'required')
    return tools.find((tool) => tool.function.name === choice.name)?.function.parameters ?? anyObject
  return {
    type: 'array',
    minItems: 1,
    maxItems: callsOnce ? 1 : 8,
    items: {
      anyOf: tools.map(({ function: { name, parameters = anyObject } }) => ({
        type: 'object',
        properties: { name: { const: name }, parameters },
        required: ['name', 'parameters'],
        additionalProperties: false,
      })),
    },
  }
}

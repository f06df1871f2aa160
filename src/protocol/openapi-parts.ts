/** Plain JSON. TypeScript does not check that it is a valid OpenAPI schema. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }
export type JsonObject = { readonly [key: string]: Json }

export const text: JsonObject = { type: 'string' }
export const anyObject: JsonObject = { type: 'object' }
export const list = (items: Json): JsonObject => ({ type: 'array', items })
export const object = (required: readonly string[], properties: JsonObject): JsonObject =>
  required.length === 0 ? { ...anyObject, properties } : { ...anyObject, required, properties }

export const ref = (name: string): JsonObject => ({ $ref: `#/components/schemas/${name}` })
export const jsonContent = (schema: Json): JsonObject => ({ 'application/json': { schema } })
export const ok = (schema: Json, description: string): JsonObject => ({
  '200': { description, content: jsonContent(schema) },
})
export const errorAnswer = (description: string): JsonObject => ({ description, content: jsonContent(ref('Error')) })
/** Triton's clients read the text of such an answer whatever its type says: some of its errors are `text/plain` with JSON in it. */
export const plainErrorAnswer = (description: string): JsonObject => ({
  description,
  content: { ...jsonContent(ref('Error')), 'text/plain': { schema: text } },
})

export const operation = (operationId: string, tag: string, summary: string, answers: JsonObject): JsonObject => ({
  operationId,
  tags: [tag],
  summary,
  responses: answers,
})

export const pathParameter = (name: string): JsonObject => ({ name, in: 'path', required: true, schema: text })
export const modelParameter = pathParameter('model')

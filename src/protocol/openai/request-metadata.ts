import { badRequest } from './openai-problem.ts'
import { isObject } from './request-fields.ts'

const mostMetadata = 16
const longestMetadataText = 512

/** What a client wants to find again beside a batch or an answer, within the limits of OpenAI. Throws OpenAiProblem. */
export function readMetadata(value: unknown): Readonly<Record<string, string>> | null {
  if (value === undefined || value === null) return null
  const isGood =
    isObject(value) &&
    Object.keys(value).length <= mostMetadata &&
    Object.entries(value).every(([key, each]) => key.length <= 64 && typeof each === 'string' && each.length <= longestMetadataText) // prettier-ignore
  if (!isGood) throw badRequest(`'metadata' must have at most ${mostMetadata} texts of at most ${longestMetadataText} characters`, 'metadata') // prettier-ignore
  return value as Readonly<Record<string, string>>
}

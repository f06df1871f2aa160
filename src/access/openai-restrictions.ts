// --openai-restricted-api: groups of calls of the OpenAI API that need a key, as in Triton's OpenAI front end.

import { ServerError } from '../base/server-error.ts'
import type { Admission, Verdict } from './admission.ts'
import { anonymous, makeCaller, type Caller } from './caller.ts'
import type { CallFacts } from './call-facts.ts'
import type { Refusal } from './refusal.ts'
import { isSecret, secretDigest, type RestrictedApis } from './shared-key-admission.ts'

/** The groups, and the paths of each. The facts of a call have the path that the router finds, without a query. */
const groups: Readonly<Record<string, RegExp>> = {
  inference:
    /^(\/v1\/(chat\/completions|completions|responses|rerank|audio\/transcriptions|(batches|files)(\/.*)?)|\/(de)?tokenize)$/,
  embedding: /^\/v1\/embeddings$/,
  // With one of these verbs behind a single colon it is a call of KServe. Names of models may have colons, too.
  'model-repository': /^\/v1\/models(\/(?!.*[^:/]:(predict|explain)$).*)?$/,
  metrics: /^\/metrics$/,
  health: /^\/health(\/ready)?$/,
}
export const openAiGroupNames: readonly string[] = Object.keys(groups)

type Guard = {
  readonly paths: RegExp
  readonly header: string
  readonly digest: Buffer
  readonly caller: Caller
  readonly refusal: Refusal
}

/** Null when nothing is restricted. Throws ServerError for an unknown group. */
export function openAiRestrictions(restricted: readonly RestrictedApis[]): Admission | null {
  const guards = restricted.flatMap(({ apis, key, value }) => apis.map((api) => guardOf(api, key, value)))
  if (guards.length === 0) return null
  const admit = (facts: CallFacts): Verdict => {
    const guard = guards.find(({ paths }) => paths.test(facts.path))
    if (guard === undefined) return anonymous
    const value = facts.header(guard.header)
    return value !== null && isSecret(value, guard.digest) ? guard.caller : guard.refusal
  }
  return { admit }
}

function guardOf(api: string, key: string, value: string): Guard {
  const paths = groups[api]
  if (paths === undefined) {
    const known = openAiGroupNames.join(', ')
    throw new ServerError(
      'INVALID_ARG',
      `unknown restricted api '${api}' in --openai-restricted-api, expected one of: ${known}`,
    )
  }
  return {
    paths,
    header: key.toLowerCase(),
    digest: secretDigest(value),
    caller: makeCaller('shared-key', key),
    // Triton's OpenAI front end answers 401 here, and OpenAI's clients raise AuthenticationError.
    refusal: {
      kind: 'refused',
      reason: 'unauthenticated',
      message: `This API is restricted, expecting header '${key}'`,
    },
  }
}

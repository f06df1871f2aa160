// `route.yaml`, the model file of a router: which of several language models gets a request.

import { readFile, stat } from 'node:fs/promises'
import { FileTextError, parseFileText } from '../../base/file-text.ts'
import { PlanProblems, type PlanValue } from '../../base/plan-reader.ts'
import { messageOf } from '../../base/server-error.ts'
import type { FileProblem } from '../../model/file-problem.ts'
import { readConditions, readKey } from '../../rollouts/read-rules.ts'
import type { KeySource } from '../../rollouts/rollout-plan.ts'
import type { Condition } from '../../rollouts/traffic-rule.ts'

/** Both bounds are outside: `above: 800` is 801 and more. */
export type TokenRange = { readonly above: number; readonly below: number }

type RouteRule = {
  readonly when: readonly Condition[]
  /** Null: the rule does not ask. */
  readonly promptTokens: TokenRange | null
  readonly maxTokens: TokenRange | null
  /** Of the requests that the rule fits, in hundredths of a per cent. */
  readonly weight: number
  readonly to: string
}

export type RoutePlan = {
  /** The first one gets what no rule fits. */
  readonly models: readonly string[]
  readonly rules: readonly RouteRule[]
  readonly key: readonly KeySource[]
  /** The name of the model whose tokenizer counts the tokens of prompts. */
  readonly tokenizer: string
  /** A request that a model cannot take, or fails before it says anything, goes to the next one. */
  readonly hasFallback: boolean
}

const mostModels = 8
const mostRules = 64
const mostTokens = 0x7fffffff
const mostFileBytes = 64 * 1024
const example = 'as in { when: { prompt_tokens: { above: 800 } }, to: large }'
const everything = 10_000
const tokenKeys = ['prompt_tokens', 'max_tokens'] as const

/** `plan` is null when there are problems. */
export async function readRouteFile(
  file: string,
  modelName: string,
): Promise<{ plan: RoutePlan | null; problems: readonly FileProblem[] }> {
  const whole = (message: string, fix: string): { plan: null; problems: FileProblem[] } => ({
    plan: null,
    problems: [{ file, line: null, column: null, message, fix }],
  })
  let text: string
  try {
    const found = await stat(file)
    if (!found.isFile()) return whole('it is no file', 'put the text of the route into it')
    if (found.size > mostFileBytes) {
      return whole(`it has ${found.size} bytes, at most ${mostFileBytes} are read`, 'leave out rules')
    }
    text = await readFile(file, 'utf8')
  } catch (reason) {
    return whole(`it cannot be read: ${messageOf(reason)}`, 'put route.yaml into the folder of the version')
  }
  try {
    const { value, positionOf } = parseFileText(text, 'yaml')
    const problems = new PlanProblems(positionOf)
    const plan = readPlan(problems.root(value), modelName)
    const found = problems.list().map(({ message, fix, position }) => ({
      file,
      line: position?.line ?? null,
      column: position?.column ?? null,
      message,
      fix,
    }))
    return { plan: found.length > 0 ? null : plan, problems: found }
  } catch (reason) {
    if (!(reason instanceof FileTextError)) throw reason
    const { line = null, column = null } = reason.position ?? {}
    return { plan: null, problems: [{ file, line, column, message: reason.message, fix: '' }] }
  }
}

function readPlan(root: PlanValue, modelName: string): RoutePlan | null {
  const fields = root.fields(['models', 'rules', 'key', 'tokenizer', 'fallback'], 'begin with: models: [small, large]')
  if (fields === null) return null
  const models = fields.models.texts(mostModels) ?? []
  if (models.length < 2 && Array.isArray(fields.models.value)) {
    fields.models.fail(`must name two models or more, got ${models.length}`)
  }
  if (new Set(models).size < models.length) fields.models.fail('must not name a model twice')
  if (models.includes(modelName)) fields.models.fail(`must not name the router itself, '${modelName}'`)
  const items = fields.rules.isThere ? fields.rules.items(mostRules, example) : null
  const rules = (items ?? []).flatMap((item) => readRule(item, models) ?? [])
  const tokenizer = fields.tokenizer.isThere ? fields.tokenizer.word(models) : models[0]
  const fallback = fields.fallback.isThere ? fields.fallback.flag() : true
  return {
    models,
    rules,
    key: readKey(fields.key),
    tokenizer: tokenizer ?? '',
    hasFallback: fallback ?? true,
  }
}

function readRule(at: PlanValue, models: readonly string[]): RouteRule | null {
  const fields = at.fields(['when', 'to', 'weight'], example)
  if (fields === null) return null
  if (!fields.when.isThere && !fields.weight.isThere) return at.fail("must have 'when' or 'weight'", example)
  const to = fields.to.word(models)
  const weight = fields.weight.isThere ? fields.weight.weight() : everything
  const when = fields.when.isThere ? readConditions(fields.when, tokenKeys) : []
  const [promptTokens = null, maxTokens = null] = fields.when.isMapping ? readRanges(fields.when) : []
  if (when.some(({ fact }) => fact === 'country'))
    fields.when.fail("must not have 'country': a router does not know it")
  return to === null || weight === null ? null : { when, promptTokens, maxTokens, weight, to }
}

function readRanges(at: PlanValue): (TokenRange | null)[] {
  return tokenKeys.map((key) => {
    const range = at.entries(mostRules)?.find(([name]) => name === key)?.[1]
    if (range === undefined) return null
    const bounds = range.fields(['above', 'below'], 'as in { above: 800 }')
    if (bounds === null) return null
    const { above, below } = bounds
    if (!above.isThere && !below.isThere) return range.fail("must have 'above' or 'below'", 'as in { above: 800 }')
    return {
      above: (above.isThere ? above.integer(0, mostTokens) : null) ?? -1,
      below: (below.isThere ? below.integer(1, mostTokens) : null) ?? Infinity,
    }
  })
}

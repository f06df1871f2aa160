// The text of a model in TypeScript or JavaScript, before it runs.

import { stripTypeScriptTypes } from 'node:module'

/** A line that begins with an import or export statement. Such a file cannot be CommonJS, whatever a package.json says. */
export const hasModuleSyntax = (source: string): boolean => /^[ \t]*(?:import\b(?!\s*[(.])|export\b)/m.test(source)

/** Throws Node's error for text that is no TypeScript, and for TypeScript that does not only add types. */
export function stripTypes(source: string): string {
  // Node calls this function experimental with a warning per process. The warning tells nothing to who runs a model.
  const emitWarning = process.emitWarning.bind(process)
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(source)
  } finally {
    process.emitWarning = emitWarning
  }
}

/** By what Node calls it: how the same is written so that it runs as it stands. */
const rewrites: readonly [construct: RegExp, advice: string][] = [
  [/enum/, 'write `const Colour = { Red: 0, Green: 1 } as const` in place of an enum'],
  [/parameter property/, 'declare the field in the class and assign it in the constructor'],
  [/namespace|module/, 'write a module of its own, or an object, in place of a namespace'],
  [/import equals/, 'write `import x from "x"` in place of `import x = require("x")`'],
  [/export equals|export assignment/, 'write `export default` in place of `export =`'],
]

/** What the author can do about an error at load; '' when the error says it all. */
export function loadAdvice(reason: unknown): string {
  if (!(reason instanceof Error)) return ''
  const { code } = reason as NodeJS.ErrnoException
  if (code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    const advice = rewrites.find(([construct]) => construct.test(reason.message))?.[1]
    const general = "types are removed and nothing else is changed (tsc finds such places with 'erasableSyntaxOnly')"
    return advice === undefined ? general : `${advice}: ${general}`
  }
  const missing = /^Cannot find package '([^']+)'/.exec(reason.message)?.[1]
  if (missing !== undefined) return `run 'npm install ${missing}' in the model's folder or in one above it`
  if (code !== 'ERR_MODULE_NOT_FOUND') return ''
  return 'an import names a file that is not there, neither as written nor with .ts, .mts, .js or .mjs'
}

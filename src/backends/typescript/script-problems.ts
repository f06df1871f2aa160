// What keeps a model in TypeScript or JavaScript from loading, as far as its text tells. Nothing is run.

import { existsSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import type { FileProblem } from '../../model/file-problem.ts'
import { candidatesOf, relativeImports } from './relative-import.ts'
import { loadAdvice, stripTypes } from './script-source.ts'

/** Files of one model that are read; a model that imports a whole project is not followed further. */
const mostFiles = 200

/** The problems of `file` and of the files that it imports by relative paths. */
export function scriptProblems(file: string): FileProblem[] {
  const problems: FileProblem[] = []
  const seen = new Set([file])
  for (const current of seen) {
    if (seen.size > mostFiles) break
    const source = readFileSync(current, 'utf8')
    const mistake = syntaxProblem(current, source)
    if (mistake !== null) {
      problems.push(mistake)
      continue
    }
    for (const specifier of relativeImports(source)) {
      const found = resolveRelative(current, specifier)
      if (found === null) problems.push(missingImport(current, source, specifier))
      else if (/\.(m?ts|m?js)$/.test(found)) seen.add(found)
    }
  }
  return problems
}

function syntaxProblem(file: string, source: string): FileProblem | null {
  try {
    stripTypes(source)
    return null
  } catch (reason) {
    const { message, stack = '' } = reason as Error
    // The type stripper puts ` :<line>`, the line and a row of carets before the message.
    const [first = '', , carets = ''] = stack.split('\n')
    const line = /:(\d+)$/.exec(first)?.[1]
    const column = carets.trimEnd().endsWith('^') ? carets.indexOf('^') + 1 : null
    const fix = loadAdvice(reason)
    return { file, line: line === undefined ? null : Number(line), column, message: `SyntaxError: ${message}`, fix }
  }
}

const isFile = (file: string): boolean => existsSync(file) && statSync(file).isFile()

function resolveRelative(from: string, specifier: string): string | null {
  const plain = specifier.replace(/[?#].*$/, '')
  const candidates = [plain, ...candidatesOf(plain)].map((name) => path.resolve(path.dirname(from), name))
  return candidates.find(isFile) ?? null
}

function missingImport(file: string, source: string, specifier: string): FileProblem {
  const line = source.slice(0, source.indexOf(specifier)).split('\n').length
  const message = `Cannot find module '${specifier}'`
  const fix = 'the file is not there, neither as written nor with .ts, .mts, .js or .mjs: correct the path'
  return { file, line, column: null, message, fix }
}

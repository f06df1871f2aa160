import path from 'node:path'

/** A file's path from the root, and its text. */
export type Texts = ReadonlyMap<string, string>

const declaration =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:const|let|class|type|interface|function\*?) (\w+)/gm
/** `export { a, type b as c }`, perhaps of another file. */
const exportList = /^export (?:type )?\{([^}]*)\}(?: from '([^']+)')?/gm
const wholeExport = /^export (?:type )?\* (?:as \w+ )?from '([^']+)'/gm
const importList = /\bimport (?:type )?(?:\w+, )?\{([^}]*)\} from '([^']+)'/g
/** All names of a file may be used: `import * as x`, `import('…')`. */
const wholeImport = /\bimport (?:type )?\* as \w+ from '([^']+)'|\bimport\(\s*'([^']+)'/g

/** The names before and after `as`: `a, type b as c` → [a, a], [b, c]. */
const pairsOf = (list: string): (readonly [string, string])[] =>
  list
    .split(',')
    .map((part) => part.replaceAll(/\/\/.*|\btype /g, '').trim())
    .filter((part) => part !== '')
    .map((part) => {
      const [name = '', alias = name] = part.split(/ as /)
      return [name, alias]
    })

const exportedNames = (text: string): string[] => [
  ...[...text.matchAll(declaration)].map((match) => match[1] ?? ''),
  ...[...text.matchAll(exportList)].flatMap((match) => pairsOf(match[1] ?? '').map(([, alias]) => alias)),
]

/** `file name` for each name that `file` takes from another file; `file *` for all of them. */
function usesOf(file: string, text: string): string[] {
  const target = (from: string): string => path.posix.join(path.posix.dirname(file), from)
  const lists = [...text.matchAll(importList), ...text.matchAll(exportList)].filter((match) => match[2] !== undefined)
  const wholes = [...text.matchAll(wholeImport), ...text.matchAll(wholeExport)]
  return [
    ...lists.flatMap((match) => pairsOf(match[1] ?? '').map(([name]) => `${target(match[2] ?? '')} ${name}`)),
    ...wholes.map((match) => `${target(match[1] ?? match[2] ?? '')} *`),
  ]
}

/** `file: name` for each export of `sources` that no file of `users` imports. */
export function findUnusedExports(sources: Texts, users: Texts): string[] {
  const used = new Set([...users].flatMap(([file, text]) => usesOf(file, text)))
  return [...sources].flatMap(([file, text]) =>
    used.has(`${file} *`)
      ? []
      : exportedNames(text)
          .filter((name) => !used.has(`${file} ${name}`))
          .map((name) => `${file}: ${name}`),
  )
}

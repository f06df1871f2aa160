// What an import of a file of the model's own may mean.

const isRelative = (specifier: string): boolean => /^\.{1,2}(\/|$)/.test(specifier)

/** The files that a relative import may mean besides the one it names: `./helper` is `./helper.ts`, `./helper.js` too. */
export function candidatesOf(specifier: string): string[] {
  if (!isRelative(specifier)) return []
  const asWritten = specifier.replace(/\/$/, '')
  const compiled = /\.(m?)js$/.exec(asWritten)
  const source = compiled === null ? [] : [asWritten.replace(/\.(m?)js$/, '.$1ts')]
  const added = ['.ts', '.mts', '.js', '.mjs', '/index.ts', '/index.js'].map((ending) => asWritten + ending)
  return [...source, ...added]
}
/** Statements only: an `import()` with a computed name cannot be read from the text. */
const importPattern = /^[ \t]*(?:import|export)\b(?:[^'"`;]*?\bfrom)?\s*(['"])(\.{1,2}\/[^'"\n]+)\1/gm

/** The relative imports of a source, as they are written. */
export const relativeImports = (source: string): string[] =>
  [...source.matchAll(importPattern)].map(([, , specifier]) => specifier as string)

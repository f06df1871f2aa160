import type { Position } from './text-format-error.ts'

/** Where each field stands in a configuration's text, by path in wire names: `input[0].dims[1]`, `parameters["k"]`. */
export class FieldPositions {
  readonly #positions = new Map<string, Position>()

  /** The first place counts: the field, not its repetition. */
  set(path: string, position: Position): void {
    if (!this.#positions.has(path)) this.#positions.set(path, { line: position.line, column: position.column })
  }

  get(path: string): Position | null {
    return this.#positions.get(path) ?? null
  }

  has(path: string): boolean {
    return this.#positions.has(path)
  }

  /** The field's place or, where the field is not written, that of the nearest block around it; null for the whole file. */
  nearest(path: string): Position | null {
    for (let at = path; at !== ''; at = parentPath(at)) {
      const position = this.#positions.get(at)
      if (position !== undefined) return position
    }
    return null
  }

  paths(): Iterable<string> {
    return this.#positions.keys()
  }
}

function parentPath(path: string): string {
  if (path.endsWith('"]')) return path.slice(0, path.lastIndexOf('["'))
  if (path.endsWith(']')) return path.slice(0, path.lastIndexOf('['))
  const dot = path.lastIndexOf('.')
  return dot < 0 ? '' : path.slice(0, dot)
}

import type { Position } from './text-format-error.ts'

type LintSeverity = 'error' | 'warning'

/** One finding of `galatea check`. An error keeps the model from loading; a warning does not. */
export type LintFinding = {
  readonly severity: LintSeverity
  /** A short name for the rule, stable across versions: `text`, `poll`, `load`, `no-version`… */
  readonly rule: string
  readonly model: string
  readonly file: string
  readonly line: number | null
  readonly column: number | null
  readonly message: string
  /** What to do; '' when the message says it all. */
  readonly fix: string
}

/** Collects what is found about one model. */
export class ModelFindings {
  readonly findings: LintFinding[] = []
  readonly #model: string

  constructor(model: string) {
    this.#model = model
  }

  error(rule: string, file: string, at: Position | null, message: string, fix = ''): void {
    this.#add('error', rule, file, at, message, fix)
  }

  warning(rule: string, file: string, at: Position | null, message: string, fix = ''): void {
    this.#add('warning', rule, file, at, message, fix)
  }

  hasErrorsIn(file: string): boolean {
    return this.findings.some((known) => known.severity === 'error' && known.file === file)
  }

  #add(severity: LintSeverity, rule: string, file: string, at: Position | null, message: string, fix: string): void {
    // The rules of polling and of loading overlap.
    if (this.findings.some((known) => known.file === file && known.message === message)) return
    const { line, column } = at ?? { line: null, column: null }
    this.findings.push({ severity, rule, model: this.#model, file, line, column, message, fix })
  }
}

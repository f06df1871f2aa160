// Parses the files of Python models in one process of the interpreter that would run them. Runs nothing of them.

import { spawn, type ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

type PythonFacts =
  | { readonly error: string; readonly line: number | null; readonly column: number | null }
  /** Of the class TritonPythonModel. `methods` is null when the text does not tell them all. */
  | {
      readonly error: null
      readonly isAbsent: boolean
      readonly methods: readonly string[] | null
      /** Modules that the file imports and that this Python does not find. */
      readonly missing: readonly string[]
    }

const program = fileURLToPath(new URL('../../../python/parse_models.py', import.meta.url))

export class PythonParser {
  readonly #interpreter: string
  readonly #environment: NodeJS.ProcessEnv
  #process: ChildProcessByStdio<Writable, Readable, null> | null = null
  #isMissing = false
  readonly #waiting: ((facts: PythonFacts | null) => void)[] = []

  constructor(interpreter: string, environment: NodeJS.ProcessEnv) {
    this.#interpreter = interpreter
    this.#environment = environment
  }

  /** Null: there is no interpreter to ask. */
  async factsOf(file: string): Promise<PythonFacts | null> {
    if (this.#isMissing || file.includes('\n')) return null
    this.#process ??= this.#start()
    const { promise, resolve } = Promise.withResolvers<PythonFacts | null>()
    this.#waiting.push(resolve)
    this.#process.stdin.write(`${file}\n`)
    return promise
  }

  close(): void {
    this.#process?.kill()
    this.#process = null
  }

  #start(): ChildProcessByStdio<Writable, Readable, null> {
    const child = spawn(this.#interpreter, ['-X', 'utf8', program], {
      env: this.#environment,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    const end = (): void => {
      this.#isMissing = true
      for (const resolve of this.#waiting.splice(0)) resolve(null)
    }
    child.on('error', end)
    child.on('exit', end)
    // A process that ends early is told by its exit.
    child.stdin.on('error', () => undefined)
    createInterface({ input: child.stdout }).on('line', (line) => {
      this.#waiting.shift()?.(JSON.parse(line) as PythonFacts)
    })
    return child
  }
}

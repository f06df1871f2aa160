// A model or backend written in a test, in a folder of its own with nothing else near it, served by real Workers.

import { mkdtemp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { TestContext } from 'node:test'
import { SystemClock, type Clock } from '../base/clock.ts'
import { MemoryLog } from '../../test/fakes/memory-log.ts'
import type { Backend, Instance, LoadedModel } from '../model/backend.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { configOf, filesOf, instanceSpec, loadModel } from './backend.contract.ts'
import { TypeScriptBackend } from './typescript/typescript-backend.ts'
import { until } from '../../test/until.ts'

/** A folder with these files, gone after the test. */
export async function folderOf(context: Pick<TestContext, 'after'>, files: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), 'galatea-'))
  context.after(() => rm(directory, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(directory, name)
    await mkdir(path.dirname(file), { recursive: true })
    await writeFile(file, text)
  }
  return directory
}

/** The first block of TypeScript of a page of the guide, which must run as it stands. */
export async function firstExample(page: string): Promise<string> {
  const text = await readFile(new URL(`../../docs/guide/${page}`, import.meta.url), 'utf8')
  return /```ts\n(.*?)```/s.exec(text)?.[1] ?? ''
}

/** One INT32 in, one INT32 out, of any length. */
export const int32Config = (fields: Partial<Parameters<typeof configOf>[1]> = {}): ModelConfig =>
  configOf('m', { input: [['IN', 'TYPE_INT32', [-1]]], output: [['OUT', 'TYPE_INT32', [-1]]], ...fields })

export class ScriptUnderTest {
  readonly log: MemoryLog
  readonly instance: Instance
  readonly #model: LoadedModel

  private constructor(log: MemoryLog, model: LoadedModel, instance: Instance) {
    this.log = log
    this.#model = model
    this.instance = instance
  }

  /** Serves `source` as `1/model.ts`; closed after the test. */
  static async ofModel(
    context: Pick<TestContext, 'after'>,
    source: string,
    options: { config?: ModelConfig; clock?: Clock; fileName?: string } = {},
  ): Promise<ScriptUnderTest> {
    const directory = await folderOf(context, { [`1/${options.fileName ?? 'model.ts'}`]: source })
    const log = new MemoryLog()
    const backend = new TypeScriptBackend({ clock: options.clock ?? new SystemClock(), log })
    return ScriptUnderTest.of(context, backend, options.config ?? int32Config(), directory, log)
  }

  static async of(
    context: Pick<TestContext, 'after'>,
    backend: Backend,
    config: ModelConfig,
    directory: string,
    log: MemoryLog,
  ): Promise<ScriptUnderTest> {
    const files = filesOf(directory)
    // Asking the code costs a Worker; a configuration that is whole has no need of it.
    const whole = config.input.length === 0 ? await backend.complete(config, files) : config
    const model = await loadModel(backend, whole, files, log)
    const instance = await model.createInstance(instanceSpec('m', 0))
    const script = new ScriptUnderTest(log, model, instance)
    context.after(async () => {
      await script.close()
      await backend.close()
    })
    return script
  }

  /** Resolves once the instance's readiness is as wanted. */
  async untilReady(isReady: boolean): Promise<void> {
    await until(() => this.instance.isReady === isReady, isReady ? 'readiness' : 'no more readiness')
  }

  async close(): Promise<void> {
    await this.instance.close()
    await this.#model.close()
  }

  messages(level: string): string[] {
    return this.log.entries.filter((entry) => entry.level === level).map((entry) => entry.message)
  }
}

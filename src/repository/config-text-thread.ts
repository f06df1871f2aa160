// Reads long texts of configurations in a thread, one after the other: a text of 1 MB can hold half a million values, and reading it takes a second.

import path from 'node:path'
import { Worker as Thread } from 'node:worker_threads'
import { ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../config/model-config.ts'
import { TextFormatError, type Position } from './text-format-error.ts'
import { parseModelConfigText } from './text-format-reader.ts'

export type ReadConfigText =
  { readonly config: ModelConfig } | { readonly position: Position; readonly what: string; readonly hint: string }

/** Shorter texts are read at once: 16,000 values at most, 25 ms. Those that people write have a tenth of that. */
const mostHere = 32 * 1024

const entry = new URL(`./config-text-worker${path.extname(import.meta.url)}`, import.meta.url)

export class ConfigTextThread {
  #last: Promise<unknown> = Promise.resolve()

  /** Throws a TextFormatError at the first mistake. */
  async read(text: string): Promise<ModelConfig> {
    if (text.length <= mostHere) return parseModelConfigText(text).config
    const mine = this.#last.then(() => readInThread(text))
    this.#last = mine.catch(() => undefined)
    const read = await mine
    if ('config' in read) return read.config
    throw new TextFormatError(read.position, read.what, read.hint)
  }
}

function readInThread(text: string): Promise<ReadConfigText> {
  return new Promise((resolve, reject) => {
    let reason: unknown = null
    const thread = new Thread(entry, { workerData: text, name: 'config-text' })
    thread.on('message', resolve)
    thread.on('error', (error) => (reason = error))
    // Behind the answer this changes nothing.
    thread.on('exit', () =>
      reject(new ServerError('INTERNAL', 'the thread that reads the configuration ended', { cause: reason })),
    )
  })
}

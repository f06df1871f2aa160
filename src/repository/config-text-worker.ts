// The program of the thread that reads one long configuration.

import { parentPort, workerData } from 'node:worker_threads'
import type { ReadConfigText } from './config-text-thread.ts'
import { TextFormatError } from './text-format-error.ts'
import { parseModelConfigText } from './text-format-reader.ts'

function read(text: string): ReadConfigText {
  try {
    return { config: parseModelConfigText(text).config }
  } catch (reason) {
    if (!(reason instanceof TextFormatError)) throw reason
    return { position: reason.position, what: reason.what, hint: reason.hint }
  }
}

parentPort?.postMessage(read(workerData as string), [])

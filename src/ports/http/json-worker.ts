// The program of a thread that reads and writes large JSON bodies, one after the other.

import { parentPort } from 'node:worker_threads'

import { ServerError } from '../../base/server-error.ts'
import { jsonCodecs } from './json-codecs.ts'
import { failedJson, runWithCodecs, type JsonCodecs, type JsonJob, type JsonResult } from './json-offload-messages.ts'

const port = parentPort
port?.on('message', (job: JsonJob) => {
  if (!nameOf(job).startsWith('tf')) run(job, jsonCodecs)
  else runTfserving(job).catch((reason: unknown) => port.postMessage(failedJson(ServerError.from(reason)), []))
})

async function runTfserving(job: JsonJob): Promise<void> {
  const { tfservingJsonCodecs } = await import('./tfserving-json-codecs.ts')
  run(job, tfservingJsonCodecs)
}

function nameOf(job: JsonJob): string {
  if (job.kind === 'read') return job.reader
  return job.kind === 'write' ? job.writer : ''
}

function run(job: JsonJob, codecs: JsonCodecs): void {
  const { message, transfer } = runWithCodecs(job, codecs)
  try {
    port?.postMessage(message, [...transfer])
  } catch (reason) {
    // A result that cannot be sent is a bug of the server, but the thread goes on.
    const failure: JsonResult = failedJson(ServerError.from(reason))
    port?.postMessage(failure, [])
  }
}

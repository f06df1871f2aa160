// The program of a thread that reads and writes large JSON bodies, one after the other.

import { parentPort } from 'node:worker_threads'

import { ServerError } from '../../base/server-error.ts'
import { failedJson, runJsonJob, type JsonJob, type JsonResult } from './json-offload-messages.ts'

const port = parentPort
port?.on('message', (job: JsonJob) => {
  const { message, transfer } = runJsonJob(job)
  try {
    port.postMessage(message, [...transfer])
  } catch (reason) {
    // A result that cannot be sent is a bug of the server, but the thread goes on.
    const failure: JsonResult = failedJson(ServerError.from(reason))
    port.postMessage(failure, [])
  }
})

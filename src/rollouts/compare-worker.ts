// The program of the thread that compares large outputs.

import { parentPort } from 'node:worker_threads'
import { Tensor } from '../tensor/tensor.ts'
import type { CompareJob, ComparedJob } from './compare-thread.ts'
import { compareOutputs } from './compare-outputs.ts'

const tensorsOf = (outputs: CompareJob['stable']): Tensor[] =>
  outputs.map(({ name, dataType, shape, bytes }) => new Tensor(name, dataType, shape, bytes))

const port = parentPort
port?.on('message', ({ id, stable, candidate, rules }: CompareJob) => {
  let done: ComparedJob
  try {
    done = { id, result: compareOutputs(tensorsOf(stable), tensorsOf(candidate), rules) }
  } catch {
    done = { id, result: null }
  }
  port.postMessage(done)
})

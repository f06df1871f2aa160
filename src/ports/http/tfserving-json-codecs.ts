// How TensorFlow Serving's bodies are read and its answers written, on the main thread and in JSON threads. A thread imports this
// with the first job that asks for it.

import type { InferReadOptions } from '../../protocol/infer-request-reader.ts'
import { readTfExamples } from '../../protocol/tfserving/example-inputs.ts'
import { writeTfAnswer } from '../../protocol/tfserving/example-results.ts'
import { readTfPredict } from '../../protocol/tfserving/predict-request.ts'

export const tfservingJsonCodecs = {
  readers: {
    tfPredict: (body: Uint8Array, options: InferReadOptions) => readTfPredict(body, options.signature, options.limits),
    tfExamples: (body: Uint8Array, options: InferReadOptions) =>
      readTfExamples(body, options.signature, options.limits.maxInputBytes),
  },
  writers: {
    tfAnswer: writeTfAnswer,
  },
}

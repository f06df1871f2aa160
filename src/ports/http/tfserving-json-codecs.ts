// How TensorFlow Serving's bodies are read and its answers written, on the main thread and in JSON threads. A thread imports this
// with the first job that asks for it.

import { readTfExamples } from '../../protocol/tfserving/example-inputs.ts'
import { writeTfAnswer } from '../../protocol/tfserving/example-results.ts'
import { readTfPredict } from '../../protocol/tfserving/predict-request.ts'

export const tfservingJsonCodecs = {
  readers: { tfPredict: readTfPredict, tfExamples: readTfExamples },
  writers: { tfAnswer: writeTfAnswer },
}

// How a JSON thread reads and writes TensorFlow Serving's protocol. A thread imports this with the first job that asks for it.

import type { InferenceResponse } from '../../model/inference-response.ts'
import type { InferReadOptions } from '../../protocol/infer-request-reader.ts'
import type { EncodedInferResponse } from '../../protocol/infer-response-writer.ts'
import { readTfExamples } from '../../protocol/tfserving/example-inputs.ts'
import { writeTfResults, type PrintedResults } from '../../protocol/tfserving/example-results.ts'
import { readTfPredict } from '../../protocol/tfserving/predict-request.ts'
import { writeTfPredict, type TfPredictContext } from '../../protocol/tfserving/predict-response.ts'

export const tfservingJsonCodecs = {
  readers: {
    tfPredict: (body: Uint8Array, options: InferReadOptions) => readTfPredict(body, options.signature, options.limits),
    tfExamples: (body: Uint8Array, options: InferReadOptions) =>
      readTfExamples(body, options.signature, options.limits.maxInputBytes),
  },
  writers: {
    tfPredict: (response: InferenceResponse, context: TfPredictContext) => writeTfPredict(response, context),
    tfResults: (response: InferenceResponse, context: PrintedResults): EncodedInferResponse => ({
      head: writeTfResults(response, context),
      parts: [],
      isBinary: false,
    }),
  },
}

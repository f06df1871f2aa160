// How a JSON thread reads and writes the protocols that every server has, with the same functions that read and write small
// bodies on the main thread.

import type { InferenceResponse } from '../../model/inference-response.ts'
import { readGenerateRequest } from '../../protocol/generate-request.ts'
import { encodeGenerateEvent, encodeGenerateResponse, type GenerateContext } from '../../protocol/generate-response.ts'
import { readInferRequest, type InferReadOptions } from '../../protocol/infer-request-reader.ts'
import { textAnswer, writeInferResponse, type PrintedOutputs } from '../../protocol/infer-response-writer.ts'
import { readPredictRequest } from '../../protocol/predict-request.ts'
import { writePredictResponse } from '../../protocol/predict-response.ts'

type PrintedGenerate = GenerateContext & PrintedOutputs

/** One row for each protocol whose bodies or answers can be large. */
export const jsonCodecs = {
  readers: {
    infer: readInferRequest,
    generate: (body: Uint8Array, options: InferReadOptions) =>
      readGenerateRequest(body, options.signature, options.limits),
    predict: (body: Uint8Array, options: InferReadOptions) =>
      readPredictRequest(body, options.signature, options.limits),
  },
  writers: {
    infer: writeInferResponse,
    predict: writePredictResponse,
    generate: (response: InferenceResponse, context: PrintedGenerate) =>
      textAnswer(encodeGenerateResponse(response, context)),
    generateEvent: (response: InferenceResponse, context: PrintedGenerate) =>
      textAnswer(encodeGenerateEvent(response, context)),
  },
}

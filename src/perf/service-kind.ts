// Kinds of servers. Only Triton's API is supported; the names of the others are known here. A new kind gets an entry
// here and builds its requests beside src/perf/prepare-requests.ts.

import { OptionError } from './option-words.ts'
import { unsupported } from './word-reader.ts'

type ServiceKind = 'triton'

/** Why a kind cannot be measured, and what the user can do instead. */
const missing: Readonly<Record<string, string>> = {
  openai:
    "the OpenAI front end's requests are not in this version; measure the model itself with --service-kind triton",
  tfserving: "TensorFlow Serving's PredictionService is not in this version",
  torchserve: "TorchServe's predictions API is not in this version",
  triton_c_api: 'there is no in-process Triton here; start the server and measure it with --service-kind triton',
  dynamic_grpc: 'calls of other gRPC services are not in this version',
}

export function serviceKindOf(word: string): ServiceKind {
  if (word === 'triton') return word
  const why = missing[word]
  if (why === undefined) throw unsupported('service-kind', word, ['triton', ...Object.keys(missing)])
  throw new OptionError(`--service-kind ${word}: ${why}`)
}

export const serviceKindTitle: Readonly<Record<ServiceKind, string>> = { triton: 'TRITON' }

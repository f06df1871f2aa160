// Kinds of servers: Triton's API, and OpenAI's (src/perf/openai). The names of the others are known here.

import { OptionError } from './option-words.ts'
import { unsupported } from './word-reader.ts'

type ServiceKind = 'triton' | 'openai'

/** Why a kind cannot be measured, and what the user can do instead. */
const missing: Readonly<Record<string, string>> = {
  tfserving: "TensorFlow Serving's PredictionService is not in this version",
  torchserve: "TorchServe's predictions API is not in this version",
  triton_c_api: 'there is no in-process Triton here; start the server and measure it with --service-kind triton',
  dynamic_grpc: 'calls of other gRPC services are not in this version',
}

export function serviceKindOf(word: string): ServiceKind {
  if (word === 'triton' || word === 'openai') return word
  const why = missing[word]
  if (why === undefined) throw unsupported('service-kind', word, ['triton', 'openai', ...Object.keys(missing)])
  throw new OptionError(`--service-kind ${word}: ${why}`)
}

export const serviceKindTitle: Readonly<Record<ServiceKind, string>> = { triton: 'TRITON', openai: 'OPENAI' }

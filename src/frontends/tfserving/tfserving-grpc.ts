// tensorflow.serving.PredictionService and ModelService.

import { requireRight, requireRightForAll } from '../../access/require-right.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import type { ModelVersion } from '../../model/model-version.ts'
import { grpcChangeOrigin } from '../../ports/grpc/grpc-change-origin.ts'
import {
  inferenceMethod,
  unaryMethod,
  type GrpcFrontEnd,
  type GrpcMethod,
  type UnaryMethod,
} from '../../ports/grpc/grpc-method.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { exampleInputs } from '../../protocol/tfserving/example-inputs.ts'
import { requireSignature } from '../../protocol/tfserving/example-json.ts'
import { invalid } from '../../protocol/tfserving/predict-request.ts'
import { servingEntries } from '../../protocol/tfserving/serving-config.ts'
import { classifyMethod, exampleAnswer, regressMethod } from '../../protocol/tfserving/serving-answer.ts'
import { decodeServing, encodeServing, servingFiles } from '../../protocol/tfserving/serving-messages.ts'
import {
  readExampleRequest,
  readMultiRequest,
  requiredSpec,
  noSpec,
  type WireExamples,
} from '../../protocol/tfserving/serving-request.ts'
import { defaultSignature, isKnownSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import { TfGrpcExchange, tfStatusOf, type TfCall, type TfGrpcParts } from './grpc-exchange.ts'
import { predictCall } from './predict-call.ts'

const predictionService = '/tensorflow.serving.PredictionService'
const modelService = '/tensorflow.serving.ModelService'
const metadataType = 'type.googleapis.com/tensorflow.serving.SignatureDefMap'

export function tfservingGrpc(
  dependencies: Omit<TfGrpcParts, 'options' | 'serving'> & { readonly log: Log },
  options: TfGrpcParts['options'],
  serving: TfGrpcParts['serving'],
): GrpcFrontEnd {
  const parts = { ...dependencies, log: dependencies.log.from('tfserving-grpc.ts'), options, serving }
  const { wording } = dependencies.engine
  const codec = {
    decode: decodeServing,
    encode: encodeServing,
    statusOf: (reason: unknown) => tfStatusOf(wording.tell(reason)),
  }
  // HOT: once per inference.
  const inference = (rpc: string, read: (message: Buffer) => TfCall): GrpcMethod => {
    const path = `${predictionService}/${rpc}`
    const begin: Parameters<typeof inferenceMethod>[2] = (message, call, caller) => {
      const asked = read(message)
      const version = serving.versionOf(asked.spec)
      new TfGrpcExchange(parts, call, caller, asked, version, message).begin(asked.spec.name, version)
    }
    return inferenceMethod(parts, path, begin, tfStatusOf)
  }
  const control = (path: string, api: GrpcMethod['api'], message: string, act: Act): GrpcMethod =>
    unaryMethod(parts, path, api, [`${message}Request`, `${message}Response`], act(parts), false, codec)
  return {
    files: servingFiles,
    methods: [
      inference('Predict', (message) => predictCall(parts, message)),
      inference('Classify', (message) => exampleCall(parts, readExampleRequest(message, classifyMethod))),
      inference('Regress', (message) => exampleCall(parts, readExampleRequest(message, regressMethod))),
      inference('MultiInference', (message) => exampleCall(parts, readMultiRequest(message), true)),
      control(`${predictionService}/GetModelMetadata`, 'metadata', 'GetModelMetadata', metadata),
      control(`${modelService}/GetModelStatus`, 'health', 'GetModelStatus', status),
      control(`${modelService}/HandleReloadConfigRequest`, 'model-repository', 'ReloadConfig', reload),
    ],
  }
}

type Act = (parts: TfGrpcParts) => UnaryMethod

function exampleCall({ options }: TfGrpcParts, asked: WireExamples, isMulti = false): TfCall {
  const spec = asked.tasks[0]?.spec ?? noSpec()
  return {
    spec,
    check: ({ signature }) => {
      if (isMulti) requireTasks(asked, signature)
      else requireSignature(spec.signature, signature)
    },
    outputs: () => null,
    inputs: ({ signature }, reserve) => exampleInputs(asked.examples, signature, options.maxMessageBytes, reserve),
    answer: (response, version) => exampleAnswer(response, asked, version, isMulti),
  }
}

/** Throws INVALID_ARG and UNSUPPORTED unless all tasks are for one model, each by a signature of its own. */
function requireTasks({ tasks }: WireExamples, signature: ModelVersion['signature']): void {
  const signatures = new Set<string>()
  for (const { spec, method } of tasks) {
    if (spec.name === '') throw invalid('Found ModelSpec with an empty model name.')
    if (spec.name !== tasks[0]?.spec.name) {
      throw invalid('All ModelSpecs in a MultiInferenceRequest must access the same model name.')
    }
    const name = spec.signature === '' ? defaultSignature : spec.signature
    if (signatures.has(name)) throw invalid(`Duplicate evaluation of signature: ${name}`)
    signatures.add(name)
    if (!isKnownSignature(name, signature)) throw invalid(`Requested signature not found in model graph: ${name}`)
    if (method !== classifyMethod && method !== regressMethod) {
      throw ServerError.withoutStack('UNSUPPORTED', `Unsupported signature method_name: ${method}`)
    }
  }
}

const status: Act =
  ({ serving }) =>
  (request, _, caller) => {
    // A label is not looked at.
    const { name, version } = requiredSpec(request)
    requireRight(caller, 'health', name)
    return serving.statusMessage(name, version)
  }

const metadata: Act =
  ({ serving }) =>
  (request, _, caller) => {
    const spec = requiredSpec(request)
    const { name } = spec
    requireRight(caller, 'metadata', name)
    const fields = request['metadataField'] as string[]
    if (fields.length === 0) throw invalid('GetModelMetadataRequest must specify at least one metadata_field')
    const other = fields.find((field) => field !== 'signature_def')
    if (other !== undefined) throw invalid(`Metadata field ${other} is not supported`)
    const { version: found, signatures } = serving.metadataMessage(name, serving.versionOf(spec))
    const any = { typeUrl: metadataType, value: encodeServing('SignatureDefMap', signatures) }
    return { modelSpec: { name, version: { value: BigInt(found) } }, metadata: new Map([['signature_def', any]]) }
  }

const reload: Act =
  ({ serving }) =>
  async (request, call, caller) => {
    serving.requireReload()
    requireRightForAll(caller, 'model-repository')
    const entries = servingEntries(request['config'] as MessageValue | null, serving.sharedConfigText)
    await serving.reload(entries, grpcChangeOrigin(call, caller))
    const names = new Set(request['metricNames'] as string[])
    return {
      status: { errorCode: 'OK', errorMessage: '' },
      metric: Array.from(names, (name) => ({ name, int64ValueIncrease: 0n })),
    }
  }

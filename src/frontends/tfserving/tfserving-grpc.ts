// tensorflow.serving.PredictionService and ModelService.

import type { Caller } from '../../access/caller.ts'
import { requireRight, requireRightForAll } from '../../access/require-right.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
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
  specOf,
  type WireExamples,
} from '../../protocol/tfserving/serving-request.ts'
import { defaultSignature, isKnownSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import { TfGrpcExchange, type TfCall, type TfGrpcParts } from './grpc-exchange.ts'
import { predictCall } from './predict-call.ts'
import { servableNotFound } from './serving-models.ts'

const predictionService = '/tensorflow.serving.PredictionService'
const modelService = '/tensorflow.serving.ModelService'
const metadataType = 'type.googleapis.com/tensorflow.serving.SignatureDefMap'

export function tfservingGrpc(
  dependencies: Omit<TfGrpcParts, 'options' | 'serving'> & { readonly log: Log },
  options: TfGrpcParts['options'],
  serving: TfGrpcParts['serving'],
): GrpcFrontEnd {
  const parts = { ...dependencies, log: dependencies.log.from('tfserving-grpc.ts'), options, serving }
  // HOT: once per inference.
  const inference = (rpc: string, read: (message: Buffer) => TfCall): GrpcMethod =>
    inferenceMethod(parts, `${predictionService}/${rpc}`, (message, call, caller) => {
      const asked = read(message)
      const { name } = asked.spec
      if (name === '') throw invalid('ModelSpec has no name specified.')
      const version = serving.versionOf(asked.spec)
      new TfGrpcExchange(parts, call, caller, asked, version, message).begin(name, version)
    })
  const control = (path: string, api: GrpcMethod['api'], message: string, act: Act): GrpcMethod =>
    unaryMethod(parts, path, api, [`${message}Request`, `${message}Response`], act(parts), false, codec)
  return {
    files: servingFiles,
    methods: [
      inference('Predict', (message) => predictCall(parts, message)),
      inference('Classify', (message) => exampleCall(parts, readExampleRequest(message, classifyMethod))),
      inference('Regress', (message) => exampleCall(parts, readExampleRequest(message, regressMethod))),
      inference('MultiInference', (message) => exampleCall(parts, checkedTasks(readMultiRequest(message)), true)),
      control(`${predictionService}/GetModelMetadata`, 'metadata', 'GetModelMetadata', metadata),
      control(`${modelService}/GetModelStatus`, 'health', 'GetModelStatus', status),
      control(`${modelService}/HandleReloadConfigRequest`, 'model-repository', 'ReloadConfig', reload),
    ],
  }
}

type Act = (parts: TfGrpcParts) => UnaryMethod

const codec = { decode: decodeServing, encode: encodeServing }

function exampleCall({ options }: TfGrpcParts, asked: WireExamples, isMulti = false): TfCall {
  const { spec } = asked.tasks[0] as WireExamples['tasks'][number]
  return {
    spec,
    outputs: () => {
      requireSignature(spec.signature)
      return null
    },
    inputs: ({ signature }, reserve) => exampleInputs(asked.examples, signature, options.maxMessageBytes, reserve),
    answer: (response, version) => exampleAnswer(response, asked, version, isMulti),
  }
}

/** The request, whose tasks are all for one model. Throws INVALID_ARG and UNSUPPORTED. */
function checkedTasks(request: WireExamples): WireExamples {
  const [first] = request.tasks
  if (first === undefined) throw invalid('the request has no tasks')
  const signatures = new Set<string>()
  for (const { spec, method } of request.tasks) {
    if (spec.name === '') throw invalid('Found ModelSpec with an empty model name.')
    if (spec.name !== first.spec.name) {
      throw invalid('All ModelSpecs in a MultiInferenceRequest must access the same model name.')
    }
    const name = spec.signature === '' ? defaultSignature : spec.signature
    if (signatures.has(name)) throw invalid(`Duplicate evaluation of signature: ${name}`)
    signatures.add(name)
    if (!isKnownSignature(spec.signature)) throw invalid(`Requested signature not found in model graph: ${name}`)
    if (method !== classifyMethod && method !== regressMethod) {
      throw ServerError.withoutStack('UNSUPPORTED', `Unsupported signature method_name: ${method.slice(0, 200)}`)
    }
  }
  return request
}

/** Throws INVALID_ARG for a request that names no model. */
function askedModel(
  serving: TfGrpcParts['serving'],
  request: MessageValue,
  caller: Caller,
  api: 'health' | 'metadata',
): { readonly name: string; readonly version: string } {
  if (request['modelSpec'] === null) throw invalid('Missing ModelSpec')
  const spec = specOf(request)
  const version = serving.versionOf(spec)
  requireRight(caller, api, spec.name)
  return { name: spec.name, version }
}

const status: Act =
  ({ serving }) =>
  (request, _, caller) => {
    const { name, version } = askedModel(serving, request, caller, 'health')
    return serving.statusMessage(name, version)
  }

const metadata: Act =
  ({ serving }) =>
  (request, _, caller) => {
    const { name, version } = askedModel(serving, request, caller, 'metadata')
    const fields = request['metadataField'] as string[]
    if (fields.length === 0) throw invalid('GetModelMetadataRequest must specify at least one metadata_field')
    const other = fields.find((field) => field !== 'signature_def')
    if (other !== undefined) throw invalid(`Metadata field ${other.slice(0, 200)} is not supported`)
    if (name === '') throw servableNotFound(name, version)
    const { version: found, signatures } = serving.metadataMessage(name, version)
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
    const names = request['metricNames'] as string[]
    return {
      status: { errorCode: 'OK', errorMessage: '' },
      metric: names.map((name) => ({ name, int64ValueIncrease: 0n })),
    }
  }

// tensorflow.serving.PredictionService and ModelService.

import type { Caller } from '../../access/caller.ts'
import { requireRight, requireRightForAll } from '../../access/require-right.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { grpcChangeOrigin } from '../../ports/grpc/grpc-change-origin.ts'
import {
  takeOne,
  unaryMethod,
  type GrpcFrontEnd,
  type GrpcMethod,
  type UnaryMethod,
} from '../../ports/grpc/grpc-method.ts'
import type { PortCall } from '../../ports/grpc/port-call.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { exampleInputs } from '../../protocol/tfserving/example-inputs.ts'
import { requireSignature } from '../../protocol/tfserving/example-json.ts'
import { invalid } from '../../protocol/tfserving/predict-request.ts'
import { servingEntries } from '../../protocol/tfserving/serving-config.ts'
import { classifyMethod, exampleAnswer, multiAnswer } from '../../protocol/tfserving/serving-answer.ts'
import { servingFiles } from '../../protocol/tfserving/serving-files.ts'
import { decodeServing, encodeServing } from '../../protocol/tfserving/serving-messages.ts'
import { readExampleRequest, readMultiRequest, type WireExamples } from '../../protocol/tfserving/serving-request.ts'
import { isKnownSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import { GrpcStatus } from '../../transport/grpc/grpc-status.ts'
import { TfGrpcExchange, type TfCall, type TfGrpcParts } from './grpc-exchange.ts'
import { PredictCall } from './predict-call.ts'
import { servableNotFound } from './serving-models.ts'

const predictionService = '/tensorflow.serving.PredictionService'
const modelService = '/tensorflow.serving.ModelService'
const regressMethod = 'tensorflow/serving/regress'
const metadataType = 'type.googleapis.com/tensorflow.serving.SignatureDefMap'

export function tfservingGrpc(
  dependencies: Omit<TfGrpcParts, 'options' | 'serving'> & { readonly log: Log },
  options: TfGrpcParts['options'],
  serving: TfGrpcParts['serving'],
): GrpcFrontEnd {
  const log = dependencies.log.from('tfserving-grpc.ts')
  const { engine, clock } = dependencies
  const parts = { ...dependencies, options, serving }
  const inference = (rpc: string, read: (message: Buffer) => TfCall): GrpcMethod => ({
    path: `${predictionService}/${rpc}`,
    api: 'inference',
    begin: (call, caller) => {
      call.allowCompression()
      call.allowLargeMessages()
      takeOne(call, log, (message) => begin(parts, call, caller, message, read))
    },
  })
  const control = (
    service: string,
    rpc: string,
    api: GrpcMethod['api'],
    [from, to]: [string, string],
    act: UnaryMethod,
  ) => unaryMethod({ log, clock, wording: engine.wording }, `${service}/${rpc}`, api, [from, to], act, false, codec)
  return {
    files: servingFiles,
    methods: [
      inference('Predict', (message) => new PredictCall(parts, message)),
      inference('Classify', (message) => exampleCall(parts, readExampleRequest(message), 'classify')),
      inference('Regress', (message) => exampleCall(parts, readExampleRequest(message), 'regress')),
      inference('MultiInference', (message) => multiCall(parts, readMultiRequest(message))),
      control(predictionService, 'GetModelMetadata', 'metadata', metadataMessages, (request, _, caller) =>
        metadata(parts, request, caller),
      ),
      control(modelService, 'GetModelStatus', 'health', statusMessages, (request, _, caller) =>
        status(parts, request, caller),
      ),
      control(modelService, 'HandleReloadConfigRequest', 'model-repository', reloadMessages, (request, call, caller) =>
        reload(parts, request, call, caller),
      ),
    ],
  }
}

const codec = { decode: decodeServing, encode: encodeServing }
const metadataMessages: [string, string] = ['GetModelMetadataRequest', 'GetModelMetadataResponse']
const statusMessages: [string, string] = ['GetModelStatusRequest', 'GetModelStatusResponse']
const reloadMessages: [string, string] = ['ReloadConfigRequest', 'ReloadConfigResponse']

/** HOT: once per inference. */
function begin(
  parts: TfGrpcParts,
  call: PortCall,
  caller: Caller,
  message: Buffer,
  read: (message: Buffer) => TfCall,
): void {
  let asked: TfCall
  try {
    asked = read(message)
  } catch (reason) {
    const error = parts.engine.wording.tell(reason)
    parts.engine.refusals.count(error)
    call.finish(GrpcStatus.of(error))
    return
  }
  new TfGrpcExchange(parts, call, caller, asked, message).start()
}

function exampleCall(
  { options }: TfGrpcParts,
  { spec, examples }: WireExamples,
  method: 'classify' | 'regress',
): TfCall {
  return {
    spec,
    outputs: () => {
      requireSignature(spec.signature)
      return null
    },
    inputs: ({ signature }) => exampleInputs(examples, signature, options.maxMessageBytes),
    answer: (response, version) => exampleAnswer(response, spec, version, { method, rows: examples.length }),
  }
}

function multiCall(parts: TfGrpcParts, { tasks, examples }: WireExamples): TfCall {
  const [first] = tasks
  if (first === undefined) throw invalid('the request has no tasks')
  const signatures = new Set<string>()
  for (const { spec, method } of tasks) {
    if (spec.name === '') throw invalid('Found ModelSpec with an empty model name.')
    if (spec.name !== first.spec.name) {
      throw invalid('All ModelSpecs in a MultiInferenceRequest must access the same model name.')
    }
    const name = spec.signature === '' ? 'serving_default' : spec.signature
    if (signatures.has(name)) throw invalid(`Duplicate evaluation of signature: ${name}`)
    signatures.add(name)
    if (!isKnownSignature(spec.signature)) throw invalid(`Requested signature not found in model graph: ${name}`)
    if (method !== classifyMethod && method !== regressMethod) {
      throw ServerError.withoutStack('UNSUPPORTED', `Unsupported signature method_name: ${method.slice(0, 200)}`)
    }
  }
  return {
    ...exampleCall(parts, { spec: first.spec, examples, tasks }, 'classify'),
    answer: (response, version) => multiAnswer(response, tasks, version, examples.length),
  }
}

type AskedModel = { readonly name: string; readonly version: string }

/** Throws INVALID_ARG for a request that names no model. */
function askedModel({ serving }: TfGrpcParts, request: MessageValue): AskedModel {
  const spec = request['modelSpec'] as MessageValue | null
  if (spec === null) throw invalid('Missing ModelSpec')
  const name = spec['name'] as string
  const label = spec['versionLabel'] as string | null
  const version = spec['version'] as MessageValue | null
  if (label !== null && label !== undefined) return { name, version: serving.versionOf(name, label) }
  return { name, version: version === null ? '' : String(version['value']) }
}

function status(parts: TfGrpcParts, request: MessageValue, caller: Caller): MessageValue {
  const { name, version } = askedModel(parts, request)
  requireRight(caller, 'health', name)
  return parts.serving.statusMessage(name, version)
}

function metadata(parts: TfGrpcParts, request: MessageValue, caller: Caller): MessageValue {
  const { name, version } = askedModel(parts, request)
  requireRight(caller, 'metadata', name)
  const fields = request['metadataField'] as string[]
  if (fields.length === 0) throw invalid('GetModelMetadataRequest must specify at least one metadata_field')
  const other = fields.find((field) => field !== 'signature_def')
  if (other !== undefined) throw invalid(`Metadata field ${other.slice(0, 200)} is not supported`)
  if (name === '') throw servableNotFound(name, version)
  const { spec, signatures } = parts.serving.metadataMessage(name, version)
  const any = { typeUrl: metadataType, value: encodeServing('SignatureDefMap', signatures) }
  return { modelSpec: spec, metadata: new Map([['signature_def', any]]) }
}

async function reload(
  parts: TfGrpcParts,
  request: MessageValue,
  call: PortCall,
  caller: Caller,
): Promise<MessageValue> {
  parts.serving.requireReload()
  requireRightForAll(caller, 'model-repository')
  const entries = servingEntries(request['config'] as MessageValue | null, parts.serving.sharedConfigText)
  await parts.serving.reload(entries, grpcChangeOrigin(call, caller))
  const names = request['metricNames'] as string[]
  return { status: { errorCode: 0, errorMessage: '' }, metric: names.map((name) => ({ name, int64ValueIncrease: 0n })) }
}

// Every RPC of inference.GRPCInferenceService but inference itself: one message in, one Engine call, one message out.

import type { LogControl } from '../../base/log-control.ts'
import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { worded } from '../../model/worded-error.ts'
import type { Engine } from '../../engine/engine.ts'
import type { SharedMemoryRegistry } from '../../engine/shared-memory/shared-memory-registry.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { readOverride, uploadedFile, type LoadParameters } from '../../protocol/repository-request.ts'
import { grpcChangeOrigin } from '../../ports/grpc/grpc-change-origin.ts'
import type { UnaryMethod } from '../../ports/grpc/grpc-method.ts'
import { logSettingsMethod } from './log-settings-method.ts'
import type { ApiName } from '../../access/api-name.ts'
import { requireRight, requireRightForAll, visibleModels } from '../../access/require-right.ts'
import { statisticsMessage } from './statistics-message.ts'
import { traceSettingMethod } from './trace-setting-method.ts'

type MethodRow = readonly [rpc: string, protocol: ApiName, method: UnaryMethod]

/** The field of a message that names the model. */
const modelFields: Readonly<Record<string, string>> = {
  ModelReady: 'name',
  ModelMetadata: 'name',
  ModelConfig: 'name',
  ModelStatistics: 'name',
  TraceSetting: 'modelName',
  RepositoryModelLoad: 'modelName',
  RepositoryModelUnload: 'modelName',
}

type MethodDependencies = {
  readonly engine: Engine
  readonly log: Log
  /** Left out when the log belongs to the embedding program. */
  readonly logControl?: LogControl
  readonly sharedMemory: SharedMemoryRegistry
}

/** Their messages may hold models; those of the others are small. */
export const largeMethods: ReadonlySet<string> = new Set(['RepositoryModelLoad'])

const text = (request: MessageValue, field: string): string => request[field] as string
const empty: MessageValue = {}

/** Every method, behind the comparison of the model that it names with the rights of the caller. */
export const serviceMethods = (dependencies: MethodDependencies): MethodRow[] =>
  methodRows(dependencies).map(([rpc, api, method]) => [rpc, api, guarded(rpc, api, method)])

function guarded(rpc: string, api: ApiName, method: UnaryMethod): UnaryMethod {
  const field = modelFields[rpc]
  if (field === undefined) return method
  return (request, call, caller) => {
    const model = caller.rights === null ? '' : text(request, field)
    if (model !== '') requireRight(caller, api, model)
    else if (api === 'trace') requireRightForAll(caller, api)
    return method(request, call, caller)
  }
}

function methodRows(dependencies: MethodDependencies): MethodRow[] {
  const { engine } = dependencies
  return [
    ['ServerLive', 'health', () => ({ live: engine.isLive })],
    ['ServerReady', 'health', () => ({ ready: engine.isReady })],
    ['ModelReady', 'health', (request) => ({ ready: isReady(engine, request) })],
    ['ServerMetadata', 'metadata', () => engine.serverMetadata()],
    ['ModelMetadata', 'metadata', (request) => engine.modelMetadata(text(request, 'name'), text(request, 'version'))],
    ['ModelConfig', 'model-config', (request) => ({ config: findVersion(engine, request).config })],
    [
      'ModelStatistics',
      'statistics',
      (request, _, caller) => {
        const isVisible = visibleModels(caller, 'statistics')
        const all = engine.statistics(text(request, 'name'), text(request, 'version'))
        return statisticsMessage(isVisible === null ? all : all.filter(({ name }) => isVisible(name)))
      },
    ],
    ['TraceSetting', 'trace', traceSettingMethod(engine)],
    ['LogSettings', 'logging', logSettingsMethod(dependencies.logControl ?? null)],
    ...repositoryMethods(dependencies),
    ...sharedMemoryMethods(dependencies.sharedMemory),
  ]
}

const findVersion = (engine: Engine, request: MessageValue): ReturnType<Engine['findVersion']> =>
  engine.findVersion(text(request, 'name'), text(request, 'version'))

const isReady = (engine: Engine, request: MessageValue): boolean =>
  !engine.isStarting && engine.isModelReady(text(request, 'name'), text(request, 'version'))

function repositoryMethods({ engine, log }: MethodDependencies): MethodRow[] {
  const speaker = log.from('service-methods.ts')
  const protocol = 'model-repository'
  return [
    [
      'RepositoryIndex',
      protocol,
      async (request, _, caller) => {
        refuseNamedRepository(request)
        const isVisible = visibleModels(caller, protocol)
        const all = await engine.repositoryIndex(request['ready'] as boolean)
        return { models: isVisible === null ? all : all.filter(({ name }) => isVisible(name)) }
      },
    ],
    [
      'RepositoryModelLoad',
      protocol,
      async (request, call, caller) => {
        refuseNamedRepository(request)
        const name = text(request, 'modelName')
        const parameters = readLoadParameters(request)
        engine.requireExplicitControl()
        await engine.load(name, readOverride(name, parameters, speaker), grpcChangeOrigin(call, caller))
        return empty
      },
    ],
    [
      'RepositoryModelUnload',
      protocol,
      async (request, call, caller) => {
        refuseNamedRepository(request)
        const dependents = parametersOf(request).get('unload_dependents')
        if (dependents !== undefined && dependents['boolParam'] === null) {
          throw invalid("invalid value type for 'unload_dependents' parameter, expected bool_param.")
        }
        engine.requireExplicitControl()
        const isWithDependents = dependents?.['boolParam'] === true
        if (isWithDependents) requireRightForAll(caller, protocol)
        await engine.unload(text(request, 'modelName'), isWithDependents, grpcChangeOrigin(call, caller))
        return empty
      },
    ],
  ]
}

const invalid = (message: string): ServerError => ServerError.withoutStack('INVALID_ARG', message)

const parametersOf = (request: MessageValue): ReadonlyMap<string, MessageValue> =>
  request['parameters'] as ReadonlyMap<string, MessageValue>

function refuseNamedRepository(request: MessageValue): void {
  if (request['repositoryName'] === '') return
  throw worded('unsupported', { text: "'repository_name' specification is not supported" })
}

function readLoadParameters(request: MessageValue): LoadParameters {
  let config: string | null = null
  const files = new Map<string, Uint8Array>()
  for (const [name, parameter] of parametersOf(request)) {
    const wrongType = (expected: string): ServerError =>
      invalid(`invalid value type for load parameter '${name}', expected ${expected}.`)
    const file = uploadedFile(name)
    if (name === 'config') {
      if (parameter['stringParam'] === null) throw wrongType('string_param')
      config = text(parameter, 'stringParam')
    } else if (file !== null) {
      if (parameter['bytesParam'] === null) throw wrongType('bytes_param')
      files.set(file, parameter['bytesParam'] as Uint8Array)
    } else throw invalid(`unrecognized load parameter '${name}'.`)
  }
  return { config, files }
}

function sharedMemoryMethods(registry: SharedMemoryRegistry): MethodRow[] {
  const number = (request: MessageValue, field: string): bigint => request[field] as bigint
  const byName = (regions: readonly { readonly name: string }[]): MessageValue => ({
    regions: new Map(regions.map((region) => [region.name, region])),
  })
  const rows: [rpc: string, method: UnaryMethod][] = [
    ['SystemSharedMemoryStatus', (request) => byName(registry.systemStatus(text(request, 'name')))],
    [
      'SystemSharedMemoryRegister',
      (request, call) => {
        const [name, key] = [text(request, 'name'), text(request, 'key')]
        registry.registerSystem(name, key, number(request, 'offset'), number(request, 'byteSize'), call.remoteAddress)
        return empty
      },
    ],
    [
      'SystemSharedMemoryUnregister',
      (request, call) => {
        registry.unregisterSystem(text(request, 'name'), call.remoteAddress)
        return empty
      },
    ],
    ['CudaSharedMemoryStatus', (request) => byName(registry.cudaStatus(text(request, 'name')))],
    [
      'CudaSharedMemoryRegister',
      async (request, call) => {
        const handle = request['rawHandle'] as Uint8Array
        const [name, peer] = [text(request, 'name'), call.remoteAddress]
        await registry.registerCuda(name, handle, number(request, 'deviceId'), number(request, 'byteSize'), peer)
        return empty
      },
    ],
    [
      'CudaSharedMemoryUnregister',
      (request, call) => {
        registry.unregisterCuda(text(request, 'name'), call.remoteAddress)
        return empty
      },
    ],
  ]
  return rows.map(([rpc, method]) => [rpc, 'shared-memory', method])
}

// Every message of the gRPC services except ModelConfig's, as tables: the general codec and server reflection read them.
// A row is [wire name, field number, type, kind, name of the oneof or type of the map key], as in the ModelConfig schema.

import type { MessageRows } from '../../protobuf/message-schema.ts'

/** RPC → request and response; `stream ` in front of a type makes it a stream. */
export type RpcRows = Readonly<Record<string, readonly [request: string, response: string]>>

export const inferenceMessages: MessageRows = {
  ServerLiveRequest: [],
  ServerLiveResponse: [['live', 1, 'bool', 'single']],
  ServerReadyRequest: [],
  ServerReadyResponse: [['ready', 1, 'bool', 'single']],
  ModelReadyRequest: [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
  ],
  ModelReadyResponse: [['ready', 1, 'bool', 'single']],
  ServerMetadataRequest: [],
  ServerMetadataResponse: [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
    ['extensions', 3, 'string', 'repeated'],
  ],
  ModelMetadataRequest: [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
  ],
  ModelMetadataResponse: [
    ['name', 1, 'string', 'single'],
    ['versions', 2, 'string', 'repeated'],
    ['platform', 3, 'string', 'single'],
    ['inputs', 4, 'ModelMetadataResponse.TensorMetadata', 'repeated'],
    ['outputs', 5, 'ModelMetadataResponse.TensorMetadata', 'repeated'],
  ],
  'ModelMetadataResponse.TensorMetadata': [
    ['name', 1, 'string', 'single'],
    ['datatype', 2, 'string', 'single'],
    ['shape', 3, 'int64', 'repeated'],
  ],
  InferParameter: [
    ['bool_param', 1, 'bool', 'oneof', 'parameter_choice'],
    ['int64_param', 2, 'int64', 'oneof', 'parameter_choice'],
    ['string_param', 3, 'string', 'oneof', 'parameter_choice'],
    ['double_param', 4, 'double', 'oneof', 'parameter_choice'],
    ['uint64_param', 5, 'uint64', 'oneof', 'parameter_choice'],
  ],
  InferTensorContents: [
    ['bool_contents', 1, 'bool', 'repeated'],
    ['int_contents', 2, 'int32', 'repeated'],
    ['int64_contents', 3, 'int64', 'repeated'],
    ['uint_contents', 4, 'uint32', 'repeated'],
    ['uint64_contents', 5, 'uint64', 'repeated'],
    ['fp32_contents', 6, 'float', 'repeated'],
    ['fp64_contents', 7, 'double', 'repeated'],
    ['bytes_contents', 8, 'bytes', 'repeated'],
  ],
  ModelInferRequest: [
    ['model_name', 1, 'string', 'single'],
    ['model_version', 2, 'string', 'single'],
    ['id', 3, 'string', 'single'],
    ['parameters', 4, 'InferParameter', 'map', 'string'],
    ['inputs', 5, 'ModelInferRequest.InferInputTensor', 'repeated'],
    ['outputs', 6, 'ModelInferRequest.InferRequestedOutputTensor', 'repeated'],
    ['raw_input_contents', 7, 'bytes', 'repeated'],
  ],
  'ModelInferRequest.InferInputTensor': [
    ['name', 1, 'string', 'single'],
    ['datatype', 2, 'string', 'single'],
    ['shape', 3, 'int64', 'repeated'],
    ['parameters', 4, 'InferParameter', 'map', 'string'],
    ['contents', 5, 'InferTensorContents', 'single'],
  ],
  'ModelInferRequest.InferRequestedOutputTensor': [
    ['name', 1, 'string', 'single'],
    ['parameters', 2, 'InferParameter', 'map', 'string'],
  ],
  ModelInferResponse: [
    ['model_name', 1, 'string', 'single'],
    ['model_version', 2, 'string', 'single'],
    ['id', 3, 'string', 'single'],
    ['parameters', 4, 'InferParameter', 'map', 'string'],
    ['outputs', 5, 'ModelInferResponse.InferOutputTensor', 'repeated'],
    ['raw_output_contents', 6, 'bytes', 'repeated'],
  ],
  'ModelInferResponse.InferOutputTensor': [
    ['name', 1, 'string', 'single'],
    ['datatype', 2, 'string', 'single'],
    ['shape', 3, 'int64', 'repeated'],
    ['parameters', 4, 'InferParameter', 'map', 'string'],
    ['contents', 5, 'InferTensorContents', 'single'],
  ],
  ModelStreamInferResponse: [
    ['error_message', 1, 'string', 'single'],
    ['infer_response', 2, 'ModelInferResponse', 'single'],
  ],
  ModelConfigRequest: [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
  ],
  ModelConfigResponse: [['config', 1, 'ModelConfig', 'single']],
  ModelStatisticsRequest: [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
  ],
  StatisticDuration: [
    ['count', 1, 'uint64', 'single'],
    ['ns', 2, 'uint64', 'single'],
  ],
  InferStatistics: [
    ['success', 1, 'StatisticDuration', 'single'],
    ['fail', 2, 'StatisticDuration', 'single'],
    ['queue', 3, 'StatisticDuration', 'single'],
    ['compute_input', 4, 'StatisticDuration', 'single'],
    ['compute_infer', 5, 'StatisticDuration', 'single'],
    ['compute_output', 6, 'StatisticDuration', 'single'],
    ['cache_hit', 7, 'StatisticDuration', 'single'],
    ['cache_miss', 8, 'StatisticDuration', 'single'],
  ],
  InferResponseStatistics: [
    ['compute_infer', 1, 'StatisticDuration', 'single'],
    ['compute_output', 2, 'StatisticDuration', 'single'],
    ['success', 3, 'StatisticDuration', 'single'],
    ['fail', 4, 'StatisticDuration', 'single'],
    ['empty_response', 5, 'StatisticDuration', 'single'],
    ['cancel', 6, 'StatisticDuration', 'single'],
  ],
  InferBatchStatistics: [
    ['batch_size', 1, 'uint64', 'single'],
    ['compute_input', 2, 'StatisticDuration', 'single'],
    ['compute_infer', 3, 'StatisticDuration', 'single'],
    ['compute_output', 4, 'StatisticDuration', 'single'],
  ],
  MemoryUsage: [
    ['type', 1, 'string', 'single'],
    ['id', 2, 'int64', 'single'],
    ['byte_size', 3, 'uint64', 'single'],
  ],
  ModelStatistics: [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
    ['last_inference', 3, 'uint64', 'single'],
    ['inference_count', 4, 'uint64', 'single'],
    ['execution_count', 5, 'uint64', 'single'],
    ['inference_stats', 6, 'InferStatistics', 'single'],
    ['batch_stats', 7, 'InferBatchStatistics', 'repeated'],
    ['memory_usage', 8, 'MemoryUsage', 'repeated'],
    ['response_stats', 9, 'InferResponseStatistics', 'map', 'string'],
  ],
  ModelStatisticsResponse: [['model_stats', 1, 'ModelStatistics', 'repeated']],
  ModelRepositoryParameter: [
    ['bool_param', 1, 'bool', 'oneof', 'parameter_choice'],
    ['int64_param', 2, 'int64', 'oneof', 'parameter_choice'],
    ['string_param', 3, 'string', 'oneof', 'parameter_choice'],
    ['bytes_param', 4, 'bytes', 'oneof', 'parameter_choice'],
  ],
  RepositoryIndexRequest: [
    ['repository_name', 1, 'string', 'single'],
    ['ready', 2, 'bool', 'single'],
  ],
  RepositoryIndexResponse: [['models', 1, 'RepositoryIndexResponse.ModelIndex', 'repeated']],
  'RepositoryIndexResponse.ModelIndex': [
    ['name', 1, 'string', 'single'],
    ['version', 2, 'string', 'single'],
    ['state', 3, 'string', 'single'],
    ['reason', 4, 'string', 'single'],
  ],
  RepositoryModelLoadRequest: [
    ['repository_name', 1, 'string', 'single'],
    ['model_name', 2, 'string', 'single'],
    ['parameters', 3, 'ModelRepositoryParameter', 'map', 'string'],
  ],
  RepositoryModelLoadResponse: [],
  RepositoryModelUnloadRequest: [
    ['repository_name', 1, 'string', 'single'],
    ['model_name', 2, 'string', 'single'],
    ['parameters', 3, 'ModelRepositoryParameter', 'map', 'string'],
  ],
  RepositoryModelUnloadResponse: [],
  SystemSharedMemoryStatusRequest: [['name', 1, 'string', 'single']],
  SystemSharedMemoryStatusResponse: [['regions', 1, 'SystemSharedMemoryStatusResponse.RegionStatus', 'map', 'string']],
  'SystemSharedMemoryStatusResponse.RegionStatus': [
    ['name', 1, 'string', 'single'],
    ['key', 2, 'string', 'single'],
    ['offset', 3, 'uint64', 'single'],
    ['byte_size', 4, 'uint64', 'single'],
  ],
  SystemSharedMemoryRegisterRequest: [
    ['name', 1, 'string', 'single'],
    ['key', 2, 'string', 'single'],
    ['offset', 3, 'uint64', 'single'],
    ['byte_size', 4, 'uint64', 'single'],
  ],
  SystemSharedMemoryRegisterResponse: [],
  SystemSharedMemoryUnregisterRequest: [['name', 1, 'string', 'single']],
  SystemSharedMemoryUnregisterResponse: [],
  CudaSharedMemoryStatusRequest: [['name', 1, 'string', 'single']],
  CudaSharedMemoryStatusResponse: [['regions', 1, 'CudaSharedMemoryStatusResponse.RegionStatus', 'map', 'string']],
  'CudaSharedMemoryStatusResponse.RegionStatus': [
    ['name', 1, 'string', 'single'],
    ['device_id', 2, 'uint64', 'single'],
    ['byte_size', 3, 'uint64', 'single'],
  ],
  CudaSharedMemoryRegisterRequest: [
    ['name', 1, 'string', 'single'],
    ['raw_handle', 2, 'bytes', 'single'],
    ['device_id', 3, 'int64', 'single'],
    ['byte_size', 4, 'uint64', 'single'],
  ],
  CudaSharedMemoryRegisterResponse: [],
  CudaSharedMemoryUnregisterRequest: [['name', 1, 'string', 'single']],
  CudaSharedMemoryUnregisterResponse: [],
  TraceSettingRequest: [
    ['settings', 1, 'TraceSettingRequest.SettingValue', 'map', 'string'],
    ['model_name', 2, 'string', 'single'],
  ],
  'TraceSettingRequest.SettingValue': [['value', 1, 'string', 'repeated']],
  TraceSettingResponse: [['settings', 1, 'TraceSettingResponse.SettingValue', 'map', 'string']],
  'TraceSettingResponse.SettingValue': [['value', 1, 'string', 'repeated']],
  LogSettingsRequest: [['settings', 1, 'LogSettingsRequest.SettingValue', 'map', 'string']],
  'LogSettingsRequest.SettingValue': [
    ['bool_param', 1, 'bool', 'oneof', 'parameter_choice'],
    ['uint32_param', 2, 'uint32', 'oneof', 'parameter_choice'],
    ['string_param', 3, 'string', 'oneof', 'parameter_choice'],
  ],
  LogSettingsResponse: [['settings', 1, 'LogSettingsResponse.SettingValue', 'map', 'string']],
  'LogSettingsResponse.SettingValue': [
    ['bool_param', 1, 'bool', 'oneof', 'parameter_choice'],
    ['uint32_param', 2, 'uint32', 'oneof', 'parameter_choice'],
    ['string_param', 3, 'string', 'oneof', 'parameter_choice'],
  ],
}

export const inferenceRpcs: RpcRows = {
  ServerLive: ['ServerLiveRequest', 'ServerLiveResponse'],
  ServerReady: ['ServerReadyRequest', 'ServerReadyResponse'],
  ModelReady: ['ModelReadyRequest', 'ModelReadyResponse'],
  ServerMetadata: ['ServerMetadataRequest', 'ServerMetadataResponse'],
  ModelMetadata: ['ModelMetadataRequest', 'ModelMetadataResponse'],
  ModelInfer: ['ModelInferRequest', 'ModelInferResponse'],
  ModelStreamInfer: ['stream ModelInferRequest', 'stream ModelStreamInferResponse'],
  ModelConfig: ['ModelConfigRequest', 'ModelConfigResponse'],
  ModelStatistics: ['ModelStatisticsRequest', 'ModelStatisticsResponse'],
  RepositoryIndex: ['RepositoryIndexRequest', 'RepositoryIndexResponse'],
  RepositoryModelLoad: ['RepositoryModelLoadRequest', 'RepositoryModelLoadResponse'],
  RepositoryModelUnload: ['RepositoryModelUnloadRequest', 'RepositoryModelUnloadResponse'],
  SystemSharedMemoryStatus: ['SystemSharedMemoryStatusRequest', 'SystemSharedMemoryStatusResponse'],
  SystemSharedMemoryRegister: ['SystemSharedMemoryRegisterRequest', 'SystemSharedMemoryRegisterResponse'],
  SystemSharedMemoryUnregister: ['SystemSharedMemoryUnregisterRequest', 'SystemSharedMemoryUnregisterResponse'],
  CudaSharedMemoryStatus: ['CudaSharedMemoryStatusRequest', 'CudaSharedMemoryStatusResponse'],
  CudaSharedMemoryRegister: ['CudaSharedMemoryRegisterRequest', 'CudaSharedMemoryRegisterResponse'],
  CudaSharedMemoryUnregister: ['CudaSharedMemoryUnregisterRequest', 'CudaSharedMemoryUnregisterResponse'],
  TraceSetting: ['TraceSettingRequest', 'TraceSettingResponse'],
  LogSettings: ['LogSettingsRequest', 'LogSettingsResponse'],
}

export const healthMessages: MessageRows = {
  HealthCheckRequest: [['service', 1, 'string', 'single']],
  HealthCheckResponse: [['status', 1, 'HealthCheckResponse.ServingStatus', 'single']],
}

export const healthEnums: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'HealthCheckResponse.ServingStatus': { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 },
}

export const healthRpcs: RpcRows = {
  Check: ['HealthCheckRequest', 'HealthCheckResponse'],
  Watch: ['HealthCheckRequest', 'stream HealthCheckResponse'],
}

export const reflectionMessages: MessageRows = {
  ServerReflectionRequest: [
    ['host', 1, 'string', 'single'],
    ['file_by_filename', 3, 'string', 'oneof', 'message_request'],
    ['file_containing_symbol', 4, 'string', 'oneof', 'message_request'],
    ['file_containing_extension', 5, 'ExtensionRequest', 'oneof', 'message_request'],
    ['all_extension_numbers_of_type', 6, 'string', 'oneof', 'message_request'],
    ['list_services', 7, 'string', 'oneof', 'message_request'],
  ],
  ExtensionRequest: [
    ['containing_type', 1, 'string', 'single'],
    ['extension_number', 2, 'int32', 'single'],
  ],
  ServerReflectionResponse: [
    ['valid_host', 1, 'string', 'single'],
    ['original_request', 2, 'ServerReflectionRequest', 'single'],
    ['file_descriptor_response', 4, 'FileDescriptorResponse', 'oneof', 'message_response'],
    ['all_extension_numbers_response', 5, 'ExtensionNumberResponse', 'oneof', 'message_response'],
    ['list_services_response', 6, 'ListServiceResponse', 'oneof', 'message_response'],
    ['error_response', 7, 'ErrorResponse', 'oneof', 'message_response'],
  ],
  FileDescriptorResponse: [['file_descriptor_proto', 1, 'bytes', 'repeated']],
  ExtensionNumberResponse: [
    ['base_type_name', 1, 'string', 'single'],
    ['extension_number', 2, 'int32', 'repeated'],
  ],
  ListServiceResponse: [['service', 1, 'ServiceResponse', 'repeated']],
  ServiceResponse: [['name', 1, 'string', 'single']],
  ErrorResponse: [
    ['error_code', 1, 'int32', 'single'],
    ['error_message', 2, 'string', 'single'],
  ],
}

export const reflectionRpcs: RpcRows = {
  ServerReflectionInfo: ['stream ServerReflectionRequest', 'stream ServerReflectionResponse'],
}

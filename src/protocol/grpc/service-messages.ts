// Every message of the gRPC services except ModelConfig's, as tables: the general codec and server reflection read them.

import type { MessageRows, RpcRows } from '../../protobuf/message-schema.ts'

const tensor: MessageRows[string] = [
  'string name = 1',
  'string datatype = 2',
  'repeated int64 shape = 3',
  'map<string, InferParameter> parameters = 4',
  'InferTensorContents contents = 5',
]
const modelChange: MessageRows[string] = [
  'string repository_name = 1',
  'string model_name = 2',
  'map<string, ModelRepositoryParameter> parameters = 3',
]
const logSetting: MessageRows[string] = [
  'oneof parameter_choice bool bool_param = 1',
  'oneof parameter_choice uint32 uint32_param = 2',
  'oneof parameter_choice string string_param = 3',
]

export const inferenceMessages: MessageRows = {
  ServerLiveRequest: [],
  ServerLiveResponse: ['bool live = 1'],
  ServerReadyRequest: [],
  ServerReadyResponse: ['bool ready = 1'],
  ModelReadyRequest: ['string name = 1', 'string version = 2'],
  ModelReadyResponse: ['bool ready = 1'],
  ServerMetadataRequest: [],
  ServerMetadataResponse: ['string name = 1', 'string version = 2', 'repeated string extensions = 3'],
  ModelMetadataRequest: ['string name = 1', 'string version = 2'],
  ModelMetadataResponse: [
    'string name = 1',
    'repeated string versions = 2',
    'string platform = 3',
    'repeated ModelMetadataResponse.TensorMetadata inputs = 4',
    'repeated ModelMetadataResponse.TensorMetadata outputs = 5',
  ],
  'ModelMetadataResponse.TensorMetadata': ['string name = 1', 'string datatype = 2', 'repeated int64 shape = 3'],
  InferParameter: [
    'oneof parameter_choice bool bool_param = 1',
    'oneof parameter_choice int64 int64_param = 2',
    'oneof parameter_choice string string_param = 3',
    'oneof parameter_choice double double_param = 4',
    'oneof parameter_choice uint64 uint64_param = 5',
  ],
  InferTensorContents: [
    'repeated bool bool_contents = 1',
    'repeated int32 int_contents = 2',
    'repeated int64 int64_contents = 3',
    'repeated uint32 uint_contents = 4',
    'repeated uint64 uint64_contents = 5',
    'repeated float fp32_contents = 6',
    'repeated double fp64_contents = 7',
    'repeated bytes bytes_contents = 8',
  ],
  ModelInferRequest: [
    'string model_name = 1',
    'string model_version = 2',
    'string id = 3',
    'map<string, InferParameter> parameters = 4',
    'repeated ModelInferRequest.InferInputTensor inputs = 5',
    'repeated ModelInferRequest.InferRequestedOutputTensor outputs = 6',
    'repeated bytes raw_input_contents = 7',
  ],
  'ModelInferRequest.InferInputTensor': tensor,
  'ModelInferRequest.InferRequestedOutputTensor': ['string name = 1', 'map<string, InferParameter> parameters = 2'],
  ModelInferResponse: [
    'string model_name = 1',
    'string model_version = 2',
    'string id = 3',
    'map<string, InferParameter> parameters = 4',
    'repeated ModelInferResponse.InferOutputTensor outputs = 5',
    'repeated bytes raw_output_contents = 6',
  ],
  'ModelInferResponse.InferOutputTensor': tensor,
  ModelStreamInferResponse: ['string error_message = 1', 'ModelInferResponse infer_response = 2'],
  ModelConfigRequest: ['string name = 1', 'string version = 2'],
  ModelConfigResponse: ['ModelConfig config = 1'],
  ModelStatisticsRequest: ['string name = 1', 'string version = 2'],
  StatisticDuration: ['uint64 count = 1', 'uint64 ns = 2'],
  InferStatistics: [
    'StatisticDuration success = 1',
    'StatisticDuration fail = 2',
    'StatisticDuration queue = 3',
    'StatisticDuration compute_input = 4',
    'StatisticDuration compute_infer = 5',
    'StatisticDuration compute_output = 6',
    'StatisticDuration cache_hit = 7',
    'StatisticDuration cache_miss = 8',
  ],
  InferResponseStatistics: [
    'StatisticDuration compute_infer = 1',
    'StatisticDuration compute_output = 2',
    'StatisticDuration success = 3',
    'StatisticDuration fail = 4',
    'StatisticDuration empty_response = 5',
    'StatisticDuration cancel = 6',
  ],
  InferBatchStatistics: [
    'uint64 batch_size = 1',
    'StatisticDuration compute_input = 2',
    'StatisticDuration compute_infer = 3',
    'StatisticDuration compute_output = 4',
  ],
  MemoryUsage: ['string type = 1', 'int64 id = 2', 'uint64 byte_size = 3'],
  ModelStatistics: [
    'string name = 1',
    'string version = 2',
    'uint64 last_inference = 3',
    'uint64 inference_count = 4',
    'uint64 execution_count = 5',
    'InferStatistics inference_stats = 6',
    'repeated InferBatchStatistics batch_stats = 7',
    'repeated MemoryUsage memory_usage = 8',
    'map<string, InferResponseStatistics> response_stats = 9',
  ],
  ModelStatisticsResponse: ['repeated ModelStatistics model_stats = 1'],
  ModelRepositoryParameter: [
    'oneof parameter_choice bool bool_param = 1',
    'oneof parameter_choice int64 int64_param = 2',
    'oneof parameter_choice string string_param = 3',
    'oneof parameter_choice bytes bytes_param = 4',
  ],
  RepositoryIndexRequest: ['string repository_name = 1', 'bool ready = 2'],
  RepositoryIndexResponse: ['repeated RepositoryIndexResponse.ModelIndex models = 1'],
  'RepositoryIndexResponse.ModelIndex': [
    'string name = 1',
    'string version = 2',
    'string state = 3',
    'string reason = 4',
  ],
  RepositoryModelLoadRequest: modelChange,
  RepositoryModelLoadResponse: [],
  RepositoryModelUnloadRequest: modelChange,
  RepositoryModelUnloadResponse: [],
  SystemSharedMemoryStatusRequest: ['string name = 1'],
  SystemSharedMemoryStatusResponse: ['map<string, SystemSharedMemoryStatusResponse.RegionStatus> regions = 1'],
  'SystemSharedMemoryStatusResponse.RegionStatus': [
    'string name = 1',
    'string key = 2',
    'uint64 offset = 3',
    'uint64 byte_size = 4',
  ],
  SystemSharedMemoryRegisterRequest: ['string name = 1', 'string key = 2', 'uint64 offset = 3', 'uint64 byte_size = 4'],
  SystemSharedMemoryRegisterResponse: [],
  SystemSharedMemoryUnregisterRequest: ['string name = 1'],
  SystemSharedMemoryUnregisterResponse: [],
  CudaSharedMemoryStatusRequest: ['string name = 1'],
  CudaSharedMemoryStatusResponse: ['map<string, CudaSharedMemoryStatusResponse.RegionStatus> regions = 1'],
  'CudaSharedMemoryStatusResponse.RegionStatus': ['string name = 1', 'uint64 device_id = 2', 'uint64 byte_size = 3'],
  CudaSharedMemoryRegisterRequest: [
    'string name = 1',
    'bytes raw_handle = 2',
    'int64 device_id = 3',
    'uint64 byte_size = 4',
  ],
  CudaSharedMemoryRegisterResponse: [],
  CudaSharedMemoryUnregisterRequest: ['string name = 1'],
  CudaSharedMemoryUnregisterResponse: [],
  TraceSettingRequest: ['map<string, TraceSettingRequest.SettingValue> settings = 1', 'string model_name = 2'],
  'TraceSettingRequest.SettingValue': ['repeated string value = 1'],
  TraceSettingResponse: ['map<string, TraceSettingResponse.SettingValue> settings = 1'],
  'TraceSettingResponse.SettingValue': ['repeated string value = 1'],
  LogSettingsRequest: ['map<string, LogSettingsRequest.SettingValue> settings = 1'],
  'LogSettingsRequest.SettingValue': logSetting,
  LogSettingsResponse: ['map<string, LogSettingsResponse.SettingValue> settings = 1'],
  'LogSettingsResponse.SettingValue': logSetting,
}

const unary = (...names: readonly string[]): RpcRows =>
  Object.fromEntries(names.map((name) => [name, [`${name}Request`, `${name}Response`]]))

export const inferenceRpcs: RpcRows = {
  ...unary('ServerLive', 'ServerReady', 'ModelReady', 'ServerMetadata', 'ModelMetadata', 'ModelInfer'),
  ModelStreamInfer: ['stream ModelInferRequest', 'stream ModelStreamInferResponse'],
  ...unary('ModelConfig', 'ModelStatistics', 'RepositoryIndex', 'RepositoryModelLoad', 'RepositoryModelUnload'),
  ...unary('SystemSharedMemoryStatus', 'SystemSharedMemoryRegister', 'SystemSharedMemoryUnregister'),
  ...unary('CudaSharedMemoryStatus', 'CudaSharedMemoryRegister', 'CudaSharedMemoryUnregister'),
  ...unary('TraceSetting', 'LogSettings'),
}

export const healthMessages: MessageRows = {
  HealthCheckRequest: ['string service = 1'],
  HealthCheckResponse: ['HealthCheckResponse.ServingStatus status = 1'],
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
    'string host = 1',
    'oneof message_request string file_by_filename = 3',
    'oneof message_request string file_containing_symbol = 4',
    'oneof message_request ExtensionRequest file_containing_extension = 5',
    'oneof message_request string all_extension_numbers_of_type = 6',
    'oneof message_request string list_services = 7',
  ],
  ExtensionRequest: ['string containing_type = 1', 'int32 extension_number = 2'],
  ServerReflectionResponse: [
    'string valid_host = 1',
    'ServerReflectionRequest original_request = 2',
    'oneof message_response FileDescriptorResponse file_descriptor_response = 4',
    'oneof message_response ExtensionNumberResponse all_extension_numbers_response = 5',
    'oneof message_response ListServiceResponse list_services_response = 6',
    'oneof message_response ErrorResponse error_response = 7',
  ],
  FileDescriptorResponse: ['repeated bytes file_descriptor_proto = 1'],
  ExtensionNumberResponse: ['string base_type_name = 1', 'repeated int32 extension_number = 2'],
  ListServiceResponse: ['repeated ServiceResponse service = 1'],
  ServiceResponse: ['string name = 1'],
  ErrorResponse: ['int32 error_code = 1', 'string error_message = 2'],
}

export const reflectionRpcs: RpcRows = {
  ServerReflectionInfo: ['stream ServerReflectionRequest', 'stream ServerReflectionResponse'],
}

// Messages of TensorFlow Serving that are not on the way of an inference, as tables.

import { decodeWire, encodeWire, type MessageValue } from '../../protobuf/message-codec.ts'
import { schemaFinder, type EnumRows, type MessageRows } from '../../protobuf/message-schema.ts'
import { serverForm } from '../grpc/message-codec.ts'

const rows: MessageRows = {
  Int64Value: ['int64 value = 1'],
  ModelSpec: [
    'string name = 1',
    'oneof version_choice Int64Value version = 2',
    'string signature_name = 3',
    'oneof version_choice string version_label = 4',
  ],
  GetModelStatusRequest: ['ModelSpec model_spec = 1'],
  StatusProto: ['int32 error_code = 1', 'string error_message = 2'],
  ModelVersionStatus: ['int64 version = 1', 'State state = 2', 'StatusProto status = 3'],
  GetModelStatusResponse: ['repeated ModelVersionStatus model_version_status = 1'],
  GetModelMetadataRequest: ['ModelSpec model_spec = 1', 'repeated string metadata_field = 2'],
  Any: ['string type_url = 1', 'bytes value = 2'],
  GetModelMetadataResponse: ['ModelSpec model_spec = 1', 'map<string, Any> metadata = 2'],
  SignatureDefMap: ['map<string, SignatureDef> signature_def = 1'],
  SignatureDef: ['map<string, TensorInfo> inputs = 1', 'map<string, TensorInfo> outputs = 2', 'string method_name = 3'],
  TensorInfo: ['string name = 1', 'int32 dtype = 2', 'TensorShapeProto tensor_shape = 3'],
  TensorShapeProto: ['repeated Dim dim = 2', 'bool unknown_rank = 3'],
  Dim: ['int64 size = 1', 'string name = 2'],
  ReloadConfigRequest: ['ModelServerConfig config = 1', 'repeated string metric_names = 2'],
  ReloadConfigResponse: ['StatusProto status = 1', 'repeated Metric metric = 2'],
  Metric: ['string name = 1', 'int64 int64_value_increase = 2'],
  ModelServerConfig: ['oneof config ModelConfigList model_config_list = 1', 'oneof config Any custom_model_config = 2'],
  ModelConfigList: ['repeated ModelConfig config = 1'],
  ModelConfig: [
    'string name = 1',
    'string base_path = 2',
    'ModelType model_type = 3',
    'string model_platform = 4',
    'LoggingConfig logging_config = 6',
    'ServableVersionPolicy model_version_policy = 7',
    'map<string, int64> version_labels = 8',
  ],
  LoggingConfig: [],
  ServableVersionPolicy: [
    'oneof policy_choice Latest latest = 100',
    'oneof policy_choice All all = 101',
    'oneof policy_choice Specific specific = 102',
  ],
  Latest: ['uint32 num_versions = 1'],
  All: [],
  Specific: ['repeated int64 versions = 1'],
  BatchingParameters: [
    'Wrapped max_batch_size = 1',
    'Wrapped batch_timeout_micros = 2',
    'Wrapped max_enqueued_batches = 3',
    'Wrapped num_batch_threads = 4',
    'WrappedText thread_pool_name = 5',
    'repeated int64 allowed_batch_sizes = 6',
    'bool pad_variable_length_inputs = 7',
    'WrappedBool enable_large_batch_splitting = 8',
    'Wrapped max_execution_batch_size = 9',
  ],
  Wrapped: ['int64 value = 1'],
  WrappedText: ['string value = 1'],
  WrappedBool: ['bool value = 1'],
  MonitoringConfig: ['PrometheusConfig prometheus_config = 1'],
  PrometheusConfig: ['bool enable = 1', 'string path = 2'],
}

const enums: EnumRows = {
  State: { UNKNOWN: 0, START: 10, LOADING: 20, AVAILABLE: 30, UNLOADING: 40, END: 50 },
  ModelType: { MODEL_TYPE_UNSPECIFIED: 0, TENSORFLOW: 1, OTHER: 2 },
}

export const servingMessage = schemaFinder(rows, enums)

/** Throws INVALID_ARG. */
export const decodeServing = (name: string, bytes: Buffer): MessageValue =>
  decodeWire(servingMessage(name), bytes, serverForm)

export function encodeServing(name: string, value: Readonly<MessageValue>): Buffer {
  return Buffer.concat(encodeWire(servingMessage(name), value, serverForm))
}

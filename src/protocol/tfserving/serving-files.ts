// The .proto files of TensorFlow Serving as tables. What tensors and examples hold is read elsewhere, field by field; their tables
// are for reflection.

import type { MessageRows } from '../../protobuf/message-schema.ts'
import type { WireFile } from '../grpc/wire-schema.ts'

/** In the order of their numbers. */
const dataTypes =
  'INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16 QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64'.split(' ') // prettier-ignore

const codes =
  'OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED'.split(' ') // prettier-ignore
const numbered = (names: readonly string[]): Record<string, number> =>
  Object.fromEntries(names.map((name, number) => [name, number]))

const tensorFile: WireFile = {
  name: 'tensorflow/core/framework/tensor.proto',
  package: 'tensorflow',
  dependencies: [],
  services: {},
  enums: {
    DataType: numbered(dataTypes.map((name) => `DT_${name}`)),
  },
  messages: {
    TensorShapeProto: ['repeated TensorShapeProto.Dim dim = 2', 'bool unknown_rank = 3'],
    'TensorShapeProto.Dim': ['int64 size = 1', 'string name = 2'],
    TensorProto: [
      'DataType dtype = 1',
      'TensorShapeProto tensor_shape = 2',
      'int32 version_number = 3',
      'bytes tensor_content = 4',
      'repeated float float_val = 5',
      'repeated double double_val = 6',
      'repeated int32 int_val = 7',
      'repeated bytes string_val = 8',
      'repeated float scomplex_val = 9',
      'repeated int64 int64_val = 10',
      'repeated bool bool_val = 11',
      'repeated double dcomplex_val = 12',
      'repeated int32 half_val = 13',
      'repeated uint32 uint32_val = 16',
      'repeated uint64 uint64_val = 17',
    ],
    BytesList: ['repeated bytes value = 1'],
    FloatList: ['repeated float value = 1'],
    Int64List: ['repeated int64 value = 1'],
    Feature: [
      'oneof kind BytesList bytes_list = 1',
      'oneof kind FloatList float_list = 2',
      'oneof kind Int64List int64_list = 3',
    ],
    Features: ['map<string, Feature> feature = 1'],
    Example: ['Features features = 1'],
    // In the order in which TensorFlow Serving prints the fields.
    TensorInfo: ['DataType dtype = 2', 'TensorShapeProto tensor_shape = 3', 'string name = 1'],
    SignatureDef: [
      'map<string, TensorInfo> inputs = 1',
      'map<string, TensorInfo> outputs = 2',
      'string method_name = 3',
    ],
  },
}

const modelMessages: MessageRows = {
  ModelSpec: [
    'string name = 1',
    'oneof version_choice Int64Value version = 2',
    'oneof version_choice string version_label = 4',
    'string signature_name = 3',
  ],
  GetModelStatusRequest: ['ModelSpec model_spec = 1'],
  StatusProto: ['Code error_code = 1', 'string error_message = 2'],
  ModelVersionStatus: ['int64 version = 1', 'ModelVersionStatus.State state = 2', 'StatusProto status = 3'],
  GetModelStatusResponse: ['repeated ModelVersionStatus model_version_status = 1'],
  GetModelMetadataRequest: ['ModelSpec model_spec = 1', 'repeated string metadata_field = 2'],
  GetModelMetadataResponse: ['ModelSpec model_spec = 1', 'map<string, Any> metadata = 2'],
  SignatureDefMap: ['map<string, SignatureDef> signature_def = 1'],
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
    'oneof policy_choice ServableVersionPolicy.Latest latest = 100',
    'oneof policy_choice ServableVersionPolicy.All all = 101',
    'oneof policy_choice ServableVersionPolicy.Specific specific = 102',
  ],
  'ServableVersionPolicy.Latest': ['uint32 num_versions = 1'],
  'ServableVersionPolicy.All': [],
  'ServableVersionPolicy.Specific': ['repeated int64 versions = 1'],
}

const inferenceMessages: MessageRows = {
  PredictRequest: [
    'ModelSpec model_spec = 1',
    'map<string, TensorProto> inputs = 2',
    'repeated string output_filter = 3',
  ],
  PredictResponse: ['map<string, TensorProto> outputs = 1', 'ModelSpec model_spec = 2'],
  ExampleList: ['repeated Example examples = 1'],
  ExampleListWithContext: ['repeated Example examples = 1', 'Example context = 2'],
  Input: ['oneof kind ExampleList example_list = 1', 'oneof kind ExampleListWithContext example_list_with_context = 2'],
  Class: ['string label = 1', 'float score = 2'],
  Classifications: ['repeated Class classes = 1'],
  ClassificationResult: ['repeated Classifications classifications = 1'],
  ClassificationRequest: ['ModelSpec model_spec = 1', 'Input input = 2'],
  ClassificationResponse: ['ClassificationResult result = 1', 'ModelSpec model_spec = 2'],
  Regression: ['float value = 1'],
  RegressionResult: ['repeated Regression regressions = 1'],
  RegressionRequest: ['ModelSpec model_spec = 1', 'Input input = 2'],
  RegressionResponse: ['RegressionResult result = 1', 'ModelSpec model_spec = 2'],
  InferenceTask: ['ModelSpec model_spec = 1', 'string method_name = 2'],
  InferenceResult: [
    'ModelSpec model_spec = 1',
    'oneof result ClassificationResult classification_result = 2',
    'oneof result RegressionResult regression_result = 3',
  ],
  MultiInferenceRequest: ['repeated InferenceTask tasks = 1', 'Input input = 2'],
  MultiInferenceResponse: ['repeated InferenceResult results = 1'],
}

const googleFile = (name: string, messages: MessageRows): WireFile => ({
  name: `google/protobuf/${name}.proto`,
  package: 'google.protobuf',
  dependencies: [],
  services: {},
  enums: {},
  messages,
})

const anyFile = googleFile('any', { Any: ['string type_url = 1', 'bytes value = 2'] })
const wrapperFile = googleFile('wrappers', {
  Int64Value: ['int64 value = 1'],
  StringValue: ['string value = 1'],
  BoolValue: ['bool value = 1'],
})

export const servingServices = {
  PredictionService: {
    Classify: ['ClassificationRequest', 'ClassificationResponse'],
    Regress: ['RegressionRequest', 'RegressionResponse'],
    Predict: ['PredictRequest', 'PredictResponse'],
    MultiInference: ['MultiInferenceRequest', 'MultiInferenceResponse'],
    GetModelMetadata: ['GetModelMetadataRequest', 'GetModelMetadataResponse'],
  },
  ModelService: {
    GetModelStatus: ['GetModelStatusRequest', 'GetModelStatusResponse'],
    HandleReloadConfigRequest: ['ReloadConfigRequest', 'ReloadConfigResponse'],
  },
} as const satisfies WireFile['services']

/** What clients see of the services. */
export const servingFiles: readonly WireFile[] = [
  anyFile,
  wrapperFile,
  tensorFile,
  {
    name: 'tensorflow_serving/apis/prediction_service.proto',
    package: 'tensorflow.serving',
    dependencies: [anyFile.name, wrapperFile.name, tensorFile.name],
    messages: { ...modelMessages, ...inferenceMessages },
    enums: {
      'ModelVersionStatus.State': { UNKNOWN: 0, START: 10, LOADING: 20, AVAILABLE: 30, UNLOADING: 40, END: 50 },
      Code: numbered(codes),
      ModelType: { MODEL_TYPE_UNSPECIFIED: 0, TENSORFLOW: 1, OTHER: 2 },
    },
    services: servingServices,
  },
]

/** The files of an operator, which no client sends. */
export const configMessages: MessageRows = {
  SSLConfig: ['string server_key = 1', 'string server_cert = 2', 'string custom_ca = 3', 'bool client_verify = 4'],
  BatchingParameters: [
    'Int64Value max_batch_size = 1',
    'Int64Value batch_timeout_micros = 2',
    'Int64Value max_enqueued_batches = 3',
    'Int64Value num_batch_threads = 4',
    'StringValue thread_pool_name = 5',
    'repeated int64 allowed_batch_sizes = 6',
    'bool pad_variable_length_inputs = 7',
    'BoolValue enable_large_batch_splitting = 8',
    'Int64Value max_execution_batch_size = 9',
  ],
}

// Every message, field, number and type of Triton's ModelConfig, as one table. The TypeScript types (model-config.ts), the
// text reader, the JSON form and the binary form of a configuration all come from this table.
// A row is [wire name, field number, type, kind, name of the oneof or type of the map key].

import {
  schemaFinder,
  type EnumRows,
  type FieldSchema,
  type MessageRows,
  type MessageSchema,
} from '../protobuf/message-schema.ts'

export type { FieldSchema, MessageSchema } from '../protobuf/message-schema.ts'

export const enumTypes = {
  'ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind': { KIND_NVDLA: 0 },
  'ModelInstanceGroup.Kind': { KIND_AUTO: 0, KIND_GPU: 1, KIND_CPU: 2, KIND_MODEL: 3 },
  'ModelInput.Format': { FORMAT_NONE: 0, FORMAT_NHWC: 1, FORMAT_NCHW: 2 },
  'BatchInput.Kind': {
    BATCH_ELEMENT_COUNT: 0,
    BATCH_ACCUMULATED_ELEMENT_COUNT: 1,
    BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO: 2,
    BATCH_MAX_ELEMENT_COUNT_AS_SHAPE: 3,
    BATCH_ITEM_SHAPE: 4,
    BATCH_ITEM_SHAPE_FLATTEN: 5,
  },
  'BatchOutput.Kind': { BATCH_SCATTER_WITH_INPUT_SHAPE: 0 },
  'ModelOptimizationPolicy.ModelPriority': { PRIORITY_DEFAULT: 0, PRIORITY_MAX: 1, PRIORITY_MIN: 2 },
  'ModelQueuePolicy.TimeoutAction': { REJECT: 0, DELAY: 1 },
  'ModelSequenceBatching.Control.Kind': {
    CONTROL_SEQUENCE_START: 0,
    CONTROL_SEQUENCE_READY: 1,
    CONTROL_SEQUENCE_END: 2,
    CONTROL_SEQUENCE_CORRID: 3,
  },
  DataType: {
    TYPE_INVALID: 0,
    TYPE_BOOL: 1,
    TYPE_UINT8: 2,
    TYPE_UINT16: 3,
    TYPE_UINT32: 4,
    TYPE_UINT64: 5,
    TYPE_INT8: 6,
    TYPE_INT16: 7,
    TYPE_INT32: 8,
    TYPE_INT64: 9,
    TYPE_FP16: 10,
    TYPE_FP32: 11,
    TYPE_FP64: 12,
    TYPE_STRING: 13,
    TYPE_BF16: 14,
  },
} as const satisfies EnumRows

export const messageTypes = {
  ModelRateLimiter: [
    ['resources', 1, 'ModelRateLimiter.Resource', 'repeated'],
    ['priority', 2, 'uint32', 'single'],
  ],
  'ModelRateLimiter.Resource': [
    ['name', 1, 'string', 'single'],
    ['global', 2, 'bool', 'single'],
    ['count', 3, 'uint32', 'single'],
  ],
  ModelInstanceGroup: [
    ['name', 1, 'string', 'single'],
    ['kind', 4, 'ModelInstanceGroup.Kind', 'single'],
    ['count', 2, 'int32', 'single'],
    ['rate_limiter', 6, 'ModelRateLimiter', 'single'],
    ['gpus', 3, 'int32', 'repeated'],
    ['secondary_devices', 8, 'ModelInstanceGroup.SecondaryDevice', 'repeated'],
    ['profile', 5, 'string', 'repeated'],
    ['passive', 7, 'bool', 'single'],
    ['host_policy', 9, 'string', 'single'],
  ],
  'ModelInstanceGroup.SecondaryDevice': [
    ['kind', 1, 'ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind', 'single'],
    ['device_id', 2, 'int64', 'single'],
  ],
  ModelTensorReshape: [['shape', 1, 'int64', 'repeated']],
  ModelInput: [
    ['name', 1, 'string', 'single'],
    ['data_type', 2, 'DataType', 'single'],
    ['format', 3, 'ModelInput.Format', 'single'],
    ['dims', 4, 'int64', 'repeated'],
    ['reshape', 5, 'ModelTensorReshape', 'single'],
    ['is_shape_tensor', 6, 'bool', 'single'],
    ['allow_ragged_batch', 7, 'bool', 'single'],
    ['optional', 8, 'bool', 'single'],
    ['is_non_linear_format_io', 9, 'bool', 'single'],
  ],
  ModelOutput: [
    ['name', 1, 'string', 'single'],
    ['data_type', 2, 'DataType', 'single'],
    ['dims', 3, 'int64', 'repeated'],
    ['reshape', 5, 'ModelTensorReshape', 'single'],
    ['label_filename', 4, 'string', 'single'],
    ['is_shape_tensor', 6, 'bool', 'single'],
    ['is_non_linear_format_io', 7, 'bool', 'single'],
  ],
  BatchInput: [
    ['kind', 1, 'BatchInput.Kind', 'single'],
    ['target_name', 2, 'string', 'repeated'],
    ['data_type', 3, 'DataType', 'single'],
    ['source_input', 4, 'string', 'repeated'],
  ],
  BatchOutput: [
    ['target_name', 1, 'string', 'repeated'],
    ['kind', 2, 'BatchOutput.Kind', 'single'],
    ['source_input', 3, 'string', 'repeated'],
  ],
  ModelVersionPolicy: [
    ['latest', 1, 'ModelVersionPolicy.Latest', 'oneof', 'policy_choice'],
    ['all', 2, 'ModelVersionPolicy.All', 'oneof', 'policy_choice'],
    ['specific', 3, 'ModelVersionPolicy.Specific', 'oneof', 'policy_choice'],
  ],
  'ModelVersionPolicy.Latest': [['num_versions', 1, 'uint32', 'single']],
  'ModelVersionPolicy.All': [],
  'ModelVersionPolicy.Specific': [['versions', 1, 'int64', 'repeated']],
  ModelOptimizationPolicy: [
    ['graph', 1, 'ModelOptimizationPolicy.Graph', 'single'],
    ['priority', 2, 'ModelOptimizationPolicy.ModelPriority', 'single'],
    ['cuda', 3, 'ModelOptimizationPolicy.Cuda', 'single'],
    ['execution_accelerators', 4, 'ModelOptimizationPolicy.ExecutionAccelerators', 'single'],
    ['input_pinned_memory', 5, 'ModelOptimizationPolicy.PinnedMemoryBuffer', 'single'],
    ['output_pinned_memory', 6, 'ModelOptimizationPolicy.PinnedMemoryBuffer', 'single'],
    ['gather_kernel_buffer_threshold', 7, 'uint32', 'single'],
    ['eager_batching', 8, 'bool', 'single'],
  ],
  'ModelOptimizationPolicy.Graph': [['level', 1, 'int32', 'single']],
  'ModelOptimizationPolicy.Cuda': [
    ['graphs', 1, 'bool', 'single'],
    ['busy_wait_events', 2, 'bool', 'single'],
    ['graph_spec', 3, 'ModelOptimizationPolicy.Cuda.GraphSpec', 'repeated'],
    ['output_copy_stream', 4, 'bool', 'single'],
  ],
  'ModelOptimizationPolicy.Cuda.GraphSpec': [
    ['batch_size', 1, 'int32', 'single'],
    ['input', 2, 'ModelOptimizationPolicy.Cuda.GraphSpec.Shape', 'map', 'string'],
    ['graph_lower_bound', 3, 'ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound', 'single'],
  ],
  'ModelOptimizationPolicy.Cuda.GraphSpec.Shape': [['dim', 1, 'int64', 'repeated']],
  'ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound': [
    ['batch_size', 1, 'int32', 'single'],
    ['input', 2, 'ModelOptimizationPolicy.Cuda.GraphSpec.Shape', 'map', 'string'],
  ],
  'ModelOptimizationPolicy.ExecutionAccelerators': [
    ['gpu_execution_accelerator', 1, 'ModelOptimizationPolicy.ExecutionAccelerators.Accelerator', 'repeated'],
    ['cpu_execution_accelerator', 2, 'ModelOptimizationPolicy.ExecutionAccelerators.Accelerator', 'repeated'],
  ],
  'ModelOptimizationPolicy.ExecutionAccelerators.Accelerator': [
    ['name', 1, 'string', 'single'],
    ['parameters', 2, 'string', 'map', 'string'],
  ],
  'ModelOptimizationPolicy.PinnedMemoryBuffer': [['enable', 1, 'bool', 'single']],
  ModelQueuePolicy: [
    ['timeout_action', 1, 'ModelQueuePolicy.TimeoutAction', 'single'],
    ['default_timeout_microseconds', 2, 'uint64', 'single'],
    ['allow_timeout_override', 3, 'bool', 'single'],
    ['max_queue_size', 4, 'uint32', 'single'],
  ],
  ModelDynamicBatching: [
    ['preferred_batch_size', 1, 'int32', 'repeated'],
    ['max_queue_delay_microseconds', 2, 'uint64', 'single'],
    ['preserve_ordering', 3, 'bool', 'single'],
    ['priority_levels', 4, 'uint64', 'single'],
    ['default_priority_level', 5, 'uint64', 'single'],
    ['default_queue_policy', 6, 'ModelQueuePolicy', 'single'],
    ['priority_queue_policy', 7, 'ModelQueuePolicy', 'map', 'uint64'],
  ],
  ModelSequenceBatching: [
    ['direct', 3, 'ModelSequenceBatching.StrategyDirect', 'oneof', 'strategy_choice'],
    ['oldest', 4, 'ModelSequenceBatching.StrategyOldest', 'oneof', 'strategy_choice'],
    ['max_sequence_idle_microseconds', 1, 'uint64', 'single'],
    ['control_input', 2, 'ModelSequenceBatching.ControlInput', 'repeated'],
    ['state', 5, 'ModelSequenceBatching.State', 'repeated'],
    ['iterative_sequence', 6, 'bool', 'single'],
  ],
  'ModelSequenceBatching.Control': [
    ['kind', 1, 'ModelSequenceBatching.Control.Kind', 'single'],
    ['int32_false_true', 2, 'int32', 'repeated'],
    ['fp32_false_true', 3, 'float', 'repeated'],
    ['bool_false_true', 5, 'bool', 'repeated'],
    ['data_type', 4, 'DataType', 'single'],
  ],
  'ModelSequenceBatching.ControlInput': [
    ['name', 1, 'string', 'single'],
    ['control', 2, 'ModelSequenceBatching.Control', 'repeated'],
  ],
  'ModelSequenceBatching.InitialState': [
    ['data_type', 1, 'DataType', 'single'],
    ['dims', 2, 'int64', 'repeated'],
    ['zero_data', 3, 'bool', 'oneof', 'state_data'],
    ['data_file', 4, 'string', 'oneof', 'state_data'],
    ['name', 5, 'string', 'single'],
  ],
  'ModelSequenceBatching.State': [
    ['input_name', 1, 'string', 'single'],
    ['output_name', 2, 'string', 'single'],
    ['data_type', 3, 'DataType', 'single'],
    ['dims', 4, 'int64', 'repeated'],
    ['initial_state', 5, 'ModelSequenceBatching.InitialState', 'repeated'],
    ['use_same_buffer_for_input_output', 6, 'bool', 'single'],
    ['use_growable_memory', 7, 'bool', 'single'],
  ],
  'ModelSequenceBatching.StrategyDirect': [
    ['max_queue_delay_microseconds', 1, 'uint64', 'single'],
    ['minimum_slot_utilization', 2, 'float', 'single'],
  ],
  'ModelSequenceBatching.StrategyOldest': [
    ['max_candidate_sequences', 1, 'int32', 'single'],
    ['preferred_batch_size', 2, 'int32', 'repeated'],
    ['max_queue_delay_microseconds', 3, 'uint64', 'single'],
    ['preserve_ordering', 4, 'bool', 'single'],
  ],
  ModelEnsembling: [
    ['step', 1, 'ModelEnsembling.Step', 'repeated'],
    ['max_inflight_requests', 2, 'uint32', 'single'],
  ],
  'ModelEnsembling.Step': [
    ['model_name', 1, 'string', 'single'],
    ['model_version', 2, 'int64', 'single'],
    ['input_map', 3, 'string', 'map', 'string'],
    ['output_map', 4, 'string', 'map', 'string'],
    ['model_namespace', 5, 'string', 'single'],
  ],
  ModelParameter: [['string_value', 1, 'string', 'single']],
  ModelWarmup: [
    ['name', 1, 'string', 'single'],
    ['batch_size', 2, 'uint32', 'single'],
    ['inputs', 3, 'ModelWarmup.Input', 'map', 'string'],
    ['count', 4, 'uint32', 'single'],
  ],
  'ModelWarmup.Input': [
    ['data_type', 1, 'DataType', 'single'],
    ['dims', 2, 'int64', 'repeated'],
    ['zero_data', 3, 'bool', 'oneof', 'input_data_type'],
    ['random_data', 4, 'bool', 'oneof', 'input_data_type'],
    ['input_data_file', 5, 'string', 'oneof', 'input_data_type'],
  ],
  ModelOperations: [['op_library_filename', 1, 'string', 'repeated']],
  ModelTransactionPolicy: [['decoupled', 1, 'bool', 'single']],
  ModelRepositoryAgents: [['agents', 1, 'ModelRepositoryAgents.Agent', 'repeated']],
  'ModelRepositoryAgents.Agent': [
    ['name', 1, 'string', 'single'],
    ['parameters', 2, 'string', 'map', 'string'],
  ],
  ModelResponseCache: [['enable', 1, 'bool', 'single']],
  ModelMetrics: [['metric_control', 1, 'ModelMetrics.MetricControl', 'repeated']],
  'ModelMetrics.MetricControl': [
    ['metric_identifier', 1, 'ModelMetrics.MetricControl.MetricIdentifier', 'single'],
    ['histogram_options', 2, 'ModelMetrics.MetricControl.HistogramOptions', 'oneof', 'metric_options'],
  ],
  'ModelMetrics.MetricControl.MetricIdentifier': [['family', 1, 'string', 'single']],
  'ModelMetrics.MetricControl.HistogramOptions': [['buckets', 1, 'double', 'repeated']],
  ModelConfig: [
    ['name', 1, 'string', 'single'],
    ['platform', 2, 'string', 'single'],
    ['backend', 17, 'string', 'single'],
    ['runtime', 25, 'string', 'single'],
    ['version_policy', 3, 'ModelVersionPolicy', 'single'],
    ['max_batch_size', 4, 'int32', 'single'],
    ['input', 5, 'ModelInput', 'repeated'],
    ['output', 6, 'ModelOutput', 'repeated'],
    ['batch_input', 20, 'BatchInput', 'repeated'],
    ['batch_output', 21, 'BatchOutput', 'repeated'],
    ['optimization', 12, 'ModelOptimizationPolicy', 'single'],
    ['dynamic_batching', 11, 'ModelDynamicBatching', 'oneof', 'scheduling_choice'],
    ['sequence_batching', 13, 'ModelSequenceBatching', 'oneof', 'scheduling_choice'],
    ['ensemble_scheduling', 15, 'ModelEnsembling', 'oneof', 'scheduling_choice'],
    ['instance_group', 7, 'ModelInstanceGroup', 'repeated'],
    ['default_model_filename', 8, 'string', 'single'],
    ['cc_model_filenames', 9, 'string', 'map', 'string'],
    ['metric_tags', 10, 'string', 'map', 'string'],
    ['parameters', 14, 'ModelParameter', 'map', 'string'],
    ['model_warmup', 16, 'ModelWarmup', 'repeated'],
    ['model_operations', 18, 'ModelOperations', 'single'],
    ['model_transaction_policy', 19, 'ModelTransactionPolicy', 'single'],
    ['model_repository_agents', 23, 'ModelRepositoryAgents', 'single'],
    ['response_cache', 24, 'ModelResponseCache', 'single'],
    ['model_metrics', 26, 'ModelMetrics', 'single'],
  ],
} as const satisfies MessageRows

export const messageSchema = schemaFinder(messageTypes, enumTypes)

export const modelConfigSchema = (): MessageSchema => messageSchema('ModelConfig')

/** A message with every field at its proto3 default: scalars zero, lists and maps empty, sub-messages and oneofs null. */
export function emptyMessage(schema: MessageSchema): Record<string, unknown> {
  const message: Record<string, unknown> = {}
  for (const field of schema.fields) message[field.name] = defaultValue(field)
  return message
}

function defaultValue(field: FieldSchema): unknown {
  if (field.kind === 'repeated') return []
  if (field.kind === 'map') return new Map()
  if (field.kind === 'oneof' || field.message !== null) return null
  return scalarDefault(field)
}

export function scalarDefault(field: Pick<FieldSchema, 'type' | 'enum'>): unknown {
  if (field.enum !== null) return [...field.enum.numbers.keys()][0]
  if (field.type === 'string') return ''
  if (field.type === 'bool') return false
  return field.type === 'uint64' ? 0n : 0
}

// ModelConfig: a model's config.pbtxt as the rest of the server sees it. Field for field the messages of the table in
// model-config-schema.ts, in camelCase. Absent sub-messages and unset oneofs are null; other fields have their proto3
// default. int64 is a number (the reader refuses what a number cannot hold), uint64 a bigint.
import { emptyMessage, modelConfigSchema } from './model-config-schema.ts'

export type ModelInstanceGroupSecondaryDeviceSecondaryDeviceKind = 'KIND_NVDLA'
export type ModelInstanceGroupKind = 'KIND_AUTO' | 'KIND_GPU' | 'KIND_CPU' | 'KIND_MODEL'
export type ModelInputFormat = 'FORMAT_NONE' | 'FORMAT_NHWC' | 'FORMAT_NCHW'
export type BatchInputKind =
  | 'BATCH_ELEMENT_COUNT'
  | 'BATCH_ACCUMULATED_ELEMENT_COUNT'
  | 'BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO'
  | 'BATCH_MAX_ELEMENT_COUNT_AS_SHAPE'
  | 'BATCH_ITEM_SHAPE'
  | 'BATCH_ITEM_SHAPE_FLATTEN'
export type BatchOutputKind = 'BATCH_SCATTER_WITH_INPUT_SHAPE'
export type ModelOptimizationPolicyModelPriority = 'PRIORITY_DEFAULT' | 'PRIORITY_MAX' | 'PRIORITY_MIN'
export type ModelQueuePolicyTimeoutAction = 'REJECT' | 'DELAY'
export type ModelSequenceBatchingControlKind =
  'CONTROL_SEQUENCE_START' | 'CONTROL_SEQUENCE_READY' | 'CONTROL_SEQUENCE_END' | 'CONTROL_SEQUENCE_CORRID'
export type ConfigDataType =
  | 'TYPE_INVALID'
  | 'TYPE_BOOL'
  | 'TYPE_UINT8'
  | 'TYPE_UINT16'
  | 'TYPE_UINT32'
  | 'TYPE_UINT64'
  | 'TYPE_INT8'
  | 'TYPE_INT16'
  | 'TYPE_INT32'
  | 'TYPE_INT64'
  | 'TYPE_FP16'
  | 'TYPE_FP32'
  | 'TYPE_FP64'
  | 'TYPE_STRING'
  | 'TYPE_BF16'

export type ModelRateLimiter = {
  resources: ModelRateLimiterResource[]
  priority: number
}

export type ModelRateLimiterResource = {
  name: string
  global: boolean
  count: number
}

export type ModelInstanceGroup = {
  name: string
  kind: ModelInstanceGroupKind
  count: number
  rateLimiter: ModelRateLimiter | null
  gpus: number[]
  secondaryDevices: ModelInstanceGroupSecondaryDevice[]
  profile: string[]
  passive: boolean
  hostPolicy: string
}

export type ModelInstanceGroupSecondaryDevice = {
  kind: ModelInstanceGroupSecondaryDeviceSecondaryDeviceKind
  deviceId: number
}

export type ModelTensorReshape = {
  shape: number[]
}

export type ModelInput = {
  name: string
  dataType: ConfigDataType
  format: ModelInputFormat
  dims: number[]
  reshape: ModelTensorReshape | null
  isShapeTensor: boolean
  allowRaggedBatch: boolean
  optional: boolean
  isNonLinearFormatIo: boolean
}

export type ModelOutput = {
  name: string
  dataType: ConfigDataType
  dims: number[]
  reshape: ModelTensorReshape | null
  labelFilename: string
  isShapeTensor: boolean
  isNonLinearFormatIo: boolean
}

export type BatchInput = {
  kind: BatchInputKind
  targetName: string[]
  dataType: ConfigDataType
  sourceInput: string[]
}

export type BatchOutput = {
  targetName: string[]
  kind: BatchOutputKind
  sourceInput: string[]
}

export type ModelVersionPolicy = {
  latest: ModelVersionPolicyLatest | null
  all: ModelVersionPolicyAll | null
  specific: ModelVersionPolicySpecific | null
}

export type ModelVersionPolicyLatest = {
  numVersions: number
}

export type ModelVersionPolicyAll = Record<string, never>

export type ModelVersionPolicySpecific = {
  versions: number[]
}

export type ModelOptimizationPolicy = {
  graph: ModelOptimizationPolicyGraph | null
  priority: ModelOptimizationPolicyModelPriority
  cuda: ModelOptimizationPolicyCuda | null
  executionAccelerators: ModelOptimizationPolicyExecutionAccelerators | null
  inputPinnedMemory: ModelOptimizationPolicyPinnedMemoryBuffer | null
  outputPinnedMemory: ModelOptimizationPolicyPinnedMemoryBuffer | null
  gatherKernelBufferThreshold: number
  eagerBatching: boolean
}

export type ModelOptimizationPolicyGraph = {
  level: number
}

export type ModelOptimizationPolicyCuda = {
  graphs: boolean
  busyWaitEvents: boolean
  graphSpec: ModelOptimizationPolicyCudaGraphSpec[]
  outputCopyStream: boolean
}

export type ModelOptimizationPolicyCudaGraphSpec = {
  batchSize: number
  input: Map<string, ModelOptimizationPolicyCudaGraphSpecShape>
  graphLowerBound: ModelOptimizationPolicyCudaGraphSpecLowerBound | null
}

export type ModelOptimizationPolicyCudaGraphSpecShape = {
  dim: number[]
}

export type ModelOptimizationPolicyCudaGraphSpecLowerBound = {
  batchSize: number
  input: Map<string, ModelOptimizationPolicyCudaGraphSpecShape>
}

export type ModelOptimizationPolicyExecutionAccelerators = {
  gpuExecutionAccelerator: ModelOptimizationPolicyExecutionAcceleratorsAccelerator[]
  cpuExecutionAccelerator: ModelOptimizationPolicyExecutionAcceleratorsAccelerator[]
}

export type ModelOptimizationPolicyExecutionAcceleratorsAccelerator = {
  name: string
  parameters: Map<string, string>
}

export type ModelOptimizationPolicyPinnedMemoryBuffer = {
  enable: boolean
}

export type ModelQueuePolicy = {
  timeoutAction: ModelQueuePolicyTimeoutAction
  defaultTimeoutMicroseconds: bigint
  allowTimeoutOverride: boolean
  maxQueueSize: number
}

export type ModelDynamicBatching = {
  preferredBatchSize: number[]
  maxQueueDelayMicroseconds: bigint
  preserveOrdering: boolean
  priorityLevels: bigint
  defaultPriorityLevel: bigint
  defaultQueuePolicy: ModelQueuePolicy | null
  priorityQueuePolicy: Map<bigint, ModelQueuePolicy>
}

export type ModelSequenceBatching = {
  direct: ModelSequenceBatchingStrategyDirect | null
  oldest: ModelSequenceBatchingStrategyOldest | null
  maxSequenceIdleMicroseconds: bigint
  controlInput: ModelSequenceBatchingControlInput[]
  state: ModelSequenceBatchingState[]
  iterativeSequence: boolean
}

export type ModelSequenceBatchingControl = {
  kind: ModelSequenceBatchingControlKind
  int32FalseTrue: number[]
  fp32FalseTrue: number[]
  boolFalseTrue: boolean[]
  dataType: ConfigDataType
}

export type ModelSequenceBatchingControlInput = {
  name: string
  control: ModelSequenceBatchingControl[]
}

export type ModelSequenceBatchingInitialState = {
  dataType: ConfigDataType
  dims: number[]
  zeroData: boolean | null
  dataFile: string | null
  name: string
}

export type ModelSequenceBatchingState = {
  inputName: string
  outputName: string
  dataType: ConfigDataType
  dims: number[]
  initialState: ModelSequenceBatchingInitialState[]
  useSameBufferForInputOutput: boolean
  useGrowableMemory: boolean
}

export type ModelSequenceBatchingStrategyDirect = {
  maxQueueDelayMicroseconds: bigint
  minimumSlotUtilization: number
}

export type ModelSequenceBatchingStrategyOldest = {
  maxCandidateSequences: number
  preferredBatchSize: number[]
  maxQueueDelayMicroseconds: bigint
  preserveOrdering: boolean
}

export type ModelEnsembling = {
  step: ModelEnsemblingStep[]
  maxInflightRequests: number
}

export type ModelEnsemblingStep = {
  modelName: string
  modelVersion: number
  inputMap: Map<string, string>
  outputMap: Map<string, string>
  modelNamespace: string
}

export type ModelParameter = {
  stringValue: string
}

export type ModelWarmup = {
  name: string
  batchSize: number
  inputs: Map<string, ModelWarmupInput>
  count: number
}

export type ModelWarmupInput = {
  dataType: ConfigDataType
  dims: number[]
  zeroData: boolean | null
  randomData: boolean | null
  inputDataFile: string | null
}

export type ModelOperations = {
  opLibraryFilename: string[]
}

export type ModelTransactionPolicy = {
  decoupled: boolean
}

export type ModelRepositoryAgents = {
  agents: ModelRepositoryAgentsAgent[]
}

export type ModelRepositoryAgentsAgent = {
  name: string
  parameters: Map<string, string>
}

export type ModelResponseCache = {
  enable: boolean
}

export type ModelMetrics = {
  metricControl: ModelMetricsMetricControl[]
}

export type ModelMetricsMetricControl = {
  metricIdentifier: ModelMetricsMetricControlMetricIdentifier | null
  histogramOptions: ModelMetricsMetricControlHistogramOptions | null
}

export type ModelMetricsMetricControlMetricIdentifier = {
  family: string
}

export type ModelMetricsMetricControlHistogramOptions = {
  buckets: number[]
}

export type ModelConfig = {
  name: string
  platform: string
  backend: string
  runtime: string
  versionPolicy: ModelVersionPolicy | null
  maxBatchSize: number
  input: ModelInput[]
  output: ModelOutput[]
  batchInput: BatchInput[]
  batchOutput: BatchOutput[]
  optimization: ModelOptimizationPolicy | null
  dynamicBatching: ModelDynamicBatching | null
  sequenceBatching: ModelSequenceBatching | null
  ensembleScheduling: ModelEnsembling | null
  instanceGroup: ModelInstanceGroup[]
  defaultModelFilename: string
  ccModelFilenames: Map<string, string>
  metricTags: Map<string, string>
  parameters: Map<string, ModelParameter>
  modelWarmup: ModelWarmup[]
  modelOperations: ModelOperations | null
  modelTransactionPolicy: ModelTransactionPolicy | null
  modelRepositoryAgents: ModelRepositoryAgents | null
  responseCache: ModelResponseCache | null
  modelMetrics: ModelMetrics | null
}

export const emptyModelConfig = (): ModelConfig => emptyMessage(modelConfigSchema()) as unknown as ModelConfig

// What Triton's backend API is, in C: types, numbers and functions that a libtriton_<name>.so expects of its server. All structures are
// opaque to backends, so the host defines them as it likes (host.h).
#ifndef GALATEA_TRITON_API_H
#define GALATEA_TRITON_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The host hides all names but these.
#pragma GCC visibility push(default)

#define OPAQUE(name) typedef struct name name
OPAQUE(TRITONSERVER_BufferAttributes);
OPAQUE(TRITONSERVER_Error);
OPAQUE(TRITONSERVER_InferenceTrace);
OPAQUE(TRITONSERVER_Message);
OPAQUE(TRITONSERVER_Metric);
OPAQUE(TRITONSERVER_MetricArgs);
OPAQUE(TRITONSERVER_MetricFamily);
OPAQUE(TRITONSERVER_Parameter);
OPAQUE(TRITONSERVER_Server);
OPAQUE(TRITONBACKEND_Backend);
OPAQUE(TRITONBACKEND_BackendAttribute);
OPAQUE(TRITONBACKEND_Batcher);
OPAQUE(TRITONBACKEND_Input);
OPAQUE(TRITONBACKEND_MemoryManager);
OPAQUE(TRITONBACKEND_Model);
OPAQUE(TRITONBACKEND_ModelInstance);
OPAQUE(TRITONBACKEND_ModelInstanceResponseStatistics);
OPAQUE(TRITONBACKEND_Output);
OPAQUE(TRITONBACKEND_Request);
OPAQUE(TRITONBACKEND_Response);
OPAQUE(TRITONBACKEND_ResponseFactory);
OPAQUE(TRITONBACKEND_State);
#undef OPAQUE

typedef enum { TRITONSERVER_TYPE_INVALID, TRITONSERVER_TYPE_BOOL, TRITONSERVER_TYPE_UINT8, TRITONSERVER_TYPE_UINT16,
  TRITONSERVER_TYPE_UINT32, TRITONSERVER_TYPE_UINT64, TRITONSERVER_TYPE_INT8, TRITONSERVER_TYPE_INT16,
  TRITONSERVER_TYPE_INT32, TRITONSERVER_TYPE_INT64, TRITONSERVER_TYPE_FP16, TRITONSERVER_TYPE_FP32,
  TRITONSERVER_TYPE_FP64, TRITONSERVER_TYPE_BYTES, TRITONSERVER_TYPE_BF16 } TRITONSERVER_DataType;
typedef enum { TRITONSERVER_MEMORY_CPU, TRITONSERVER_MEMORY_CPU_PINNED, TRITONSERVER_MEMORY_GPU }
  TRITONSERVER_MemoryType;
typedef enum { TRITONSERVER_PARAMETER_STRING, TRITONSERVER_PARAMETER_INT, TRITONSERVER_PARAMETER_BOOL,
  TRITONSERVER_PARAMETER_DOUBLE, TRITONSERVER_PARAMETER_BYTES } TRITONSERVER_ParameterType;
typedef enum { TRITONSERVER_INSTANCEGROUPKIND_AUTO, TRITONSERVER_INSTANCEGROUPKIND_CPU,
  TRITONSERVER_INSTANCEGROUPKIND_GPU, TRITONSERVER_INSTANCEGROUPKIND_MODEL } TRITONSERVER_InstanceGroupKind;
typedef enum { TRITONSERVER_LOG_INFO, TRITONSERVER_LOG_WARN, TRITONSERVER_LOG_ERROR, TRITONSERVER_LOG_VERBOSE }
  TRITONSERVER_LogLevel;
typedef enum { TRITONSERVER_ERROR_UNKNOWN, TRITONSERVER_ERROR_INTERNAL, TRITONSERVER_ERROR_NOT_FOUND,
  TRITONSERVER_ERROR_INVALID_ARG, TRITONSERVER_ERROR_UNAVAILABLE, TRITONSERVER_ERROR_UNSUPPORTED,
  TRITONSERVER_ERROR_ALREADY_EXISTS, TRITONSERVER_ERROR_CANCELLED } TRITONSERVER_Error_Code;
typedef enum { TRITONSERVER_METRIC_KIND_COUNTER, TRITONSERVER_METRIC_KIND_GAUGE, TRITONSERVER_METRIC_KIND_HISTOGRAM }
  TRITONSERVER_MetricKind;
typedef enum { TRITONBACKEND_ARTIFACT_FILESYSTEM } TRITONBACKEND_ArtifactType;
typedef enum { TRITONBACKEND_EXECUTION_BLOCKING, TRITONBACKEND_EXECUTION_DEVICE_BLOCKING }
  TRITONBACKEND_ExecutionPolicy;

enum { TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2 };
enum { TRITONSERVER_REQUEST_RELEASE_ALL = 1, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2 };
enum { TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1 };

// What a backend exports. Only the execution is required.
TRITONSERVER_Error *TRITONBACKEND_Initialize(TRITONBACKEND_Backend *backend);
TRITONSERVER_Error *TRITONBACKEND_Finalize(TRITONBACKEND_Backend *backend);
TRITONSERVER_Error *TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend *backend,
    TRITONBACKEND_BackendAttribute *attributes);
TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *model);
TRITONSERVER_Error *TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model *model);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance *instance);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance *instance);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
    TRITONBACKEND_Request **requests, uint32_t request_count);

// What the server offers. A function returns NULL when it succeeds.
TRITONSERVER_Error *TRITONSERVER_ApiVersion(uint32_t *major, uint32_t *minor);
const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype);
TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char *dtype);
uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype);
const char *TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType memtype);
const char *TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType paramtype);
TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type, const void
    *value);
TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name, const void *byte_ptr, uint64_t size);
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter);
const char *TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind);
bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level);
TRITONSERVER_Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename, int line, const char
    *msg);
TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *msg);
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error *error);
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error *error);
const char *TRITONSERVER_ErrorCodeString(TRITONSERVER_Error *error);
const char *TRITONSERVER_ErrorMessage(TRITONSERVER_Error *error);
TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message, const char *base, size_t
    byte_size);
TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message);
TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message, const char **base, size_t
    *byte_size);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceReportActivity(TRITONSERVER_InferenceTrace *trace, uint64_t timestamp,
    const char *activity_name);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceDelete(TRITONSERVER_InferenceTrace *trace);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceId(TRITONSERVER_InferenceTrace *trace, uint64_t *id);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceParentId(TRITONSERVER_InferenceTrace *trace, uint64_t *parent_id);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceModelName(TRITONSERVER_InferenceTrace *trace, const char **model_name);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceModelVersion(TRITONSERVER_InferenceTrace *trace, int64_t
    *model_version);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceRequestId(TRITONSERVER_InferenceTrace *trace, const char **request_id);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceSpawnChildTrace(TRITONSERVER_InferenceTrace *trace,
    TRITONSERVER_InferenceTrace **child_trace);
TRITONSERVER_Error *TRITONSERVER_InferenceTraceContext(TRITONSERVER_InferenceTrace *trace, const char
    **trace_context);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes **attributes);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes *attributes);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryTypeId(TRITONSERVER_BufferAttributes *attributes, int64_t
    memory_type_id);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetMemoryType(TRITONSERVER_BufferAttributes *attributes,
    TRITONSERVER_MemoryType memory_type);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes, void
    *cuda_ipc_handle);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesSetByteSize(TRITONSERVER_BufferAttributes *attributes, size_t
    byte_size);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesMemoryTypeId(TRITONSERVER_BufferAttributes *attributes, int64_t
    *memory_type_id);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesMemoryType(TRITONSERVER_BufferAttributes *attributes,
    TRITONSERVER_MemoryType *memory_type);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes, void
    **cuda_ipc_handle);
TRITONSERVER_Error *TRITONSERVER_BufferAttributesByteSize(TRITONSERVER_BufferAttributes *attributes, size_t
    *byte_size);
TRITONSERVER_Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family, TRITONSERVER_MetricKind kind,
    const char *name, const char *description);
TRITONSERVER_Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family);
TRITONSERVER_Error *TRITONSERVER_GetMetricFamilyKind(TRITONSERVER_MetricFamily *family, TRITONSERVER_MetricKind
    *kind);
TRITONSERVER_Error *TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs **args);
TRITONSERVER_Error *TRITONSERVER_MetricArgsSetHistogram(TRITONSERVER_MetricArgs *args, const double *buckets, uint64_t
    buckets_count);
TRITONSERVER_Error *TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs *args);
TRITONSERVER_Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family, const
    TRITONSERVER_Parameter **labels, uint64_t label_count);
TRITONSERVER_Error *TRITONSERVER_MetricNewWithArgs(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
    const TRITONSERVER_Parameter **labels, uint64_t label_count, const TRITONSERVER_MetricArgs *args);
TRITONSERVER_Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric);
TRITONSERVER_Error *TRITONSERVER_MetricValue(TRITONSERVER_Metric *metric, double *value);
TRITONSERVER_Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double value);
TRITONSERVER_Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *metric, double value);
TRITONSERVER_Error *TRITONSERVER_MetricObserve(TRITONSERVER_Metric *metric, double value);
TRITONSERVER_Error *TRITONSERVER_GetMetricKind(TRITONSERVER_Metric *metric, TRITONSERVER_MetricKind *kind);

TRITONSERVER_Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor);
TRITONSERVER_Error *TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager *manager, void **buffer,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, uint64_t byte_size);
TRITONSERVER_Error *TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager *manager, void *buffer,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);
TRITONSERVER_Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name, TRITONSERVER_DataType
    *datatype, const int64_t **shape, uint32_t *dims_count, uint64_t *byte_size, uint32_t *buffer_count);
TRITONSERVER_Error *TRITONBACKEND_InputPropertiesForHostPolicy(TRITONBACKEND_Input *input, const char
    *host_policy_name, const char **name, TRITONSERVER_DataType *datatype, const int64_t **shape, uint32_t
    *dims_count, uint64_t *byte_size, uint32_t *buffer_count);
TRITONSERVER_Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index, const void **buffer,
    uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);
TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(TRITONBACKEND_Input *input, const char *host_policy_name,
    uint32_t index, const void **buffer, uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t
    *memory_type_id);
TRITONSERVER_Error *TRITONBACKEND_InputBufferAttributes(TRITONBACKEND_Input *input, uint32_t index, const void
    **buffer, TRITONSERVER_BufferAttributes **attributes);
TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer, uint64_t buffer_byte_size,
    TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);
TRITONSERVER_Error *TRITONBACKEND_OutputBufferAttributes(TRITONBACKEND_Output *output, TRITONSERVER_BufferAttributes
    **attributes);
TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id);
TRITONSERVER_Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is_cancelled);
TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory, bool
    *is_cancelled);
TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *request, uint64_t *id);
TRITONSERVER_Error *TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request *request, uint64_t
    *timeout);
TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *request, const char **id);
TRITONSERVER_Error *TRITONBACKEND_RequestFlags(TRITONBACKEND_Request *request, uint32_t *flags);
TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request, uint32_t *count);
TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index, const char **key,
    TRITONSERVER_ParameterType *type, const void **vvalue);
TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count);
TRITONSERVER_Error *TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *request, uint32_t index, const char
    **input_name);
TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name, TRITONBACKEND_Input
    **input);
TRITONSERVER_Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request, uint32_t index,
    TRITONBACKEND_Input **input);
TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request, uint32_t *count);
TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index, const char
    **output_name);
TRITONSERVER_Error *TRITONBACKEND_RequestOutputBufferProperties(TRITONBACKEND_Request *request, const char *name,
    size_t *byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);
TRITONSERVER_Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t release_flags);
TRITONSERVER_Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *request, TRITONSERVER_InferenceTrace **trace);
TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory, TRITONBACKEND_Request
    *request);
TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory);
TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory, uint32_t
    send_flags);
TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response, TRITONBACKEND_Request *request);
TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **response,
    TRITONBACKEND_ResponseFactory *factory);
TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response);
TRITONSERVER_Error *TRITONBACKEND_ResponseSetStringParameter(TRITONBACKEND_Response *response, const char *name, const
    char *value);
TRITONSERVER_Error *TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *response, const char *name, int64_t
    value);
TRITONSERVER_Error *TRITONBACKEND_ResponseSetBoolParameter(TRITONBACKEND_Response *response, const char *name, bool
    value);
TRITONSERVER_Error *TRITONBACKEND_ResponseSetDoubleParameter(TRITONBACKEND_Response *response, const char *name,
    double value);
TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response, TRITONBACKEND_Output **output,
    const char *name, TRITONSERVER_DataType datatype, const int64_t *shape, uint32_t dims_count);
TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t send_flags,
    TRITONSERVER_Error *error);
TRITONSERVER_Error *TRITONBACKEND_StateNew(TRITONBACKEND_State **state, TRITONBACKEND_Request *request, const char
    *name, TRITONSERVER_DataType datatype, const int64_t *shape, uint32_t dims_count);
TRITONSERVER_Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state);
TRITONSERVER_Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer, uint64_t buffer_byte_size,
    TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id);
TRITONSERVER_Error *TRITONBACKEND_StateBufferAttributes(TRITONBACKEND_State *state, TRITONSERVER_BufferAttributes
    **attributes);
TRITONSERVER_Error *TRITONBACKEND_BackendName(TRITONBACKEND_Backend *backend, const char **name);
TRITONSERVER_Error *TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *backend, TRITONSERVER_Message
    **backend_config);
TRITONSERVER_Error *TRITONBACKEND_BackendExecutionPolicy(TRITONBACKEND_Backend *backend, TRITONBACKEND_ExecutionPolicy
    *policy);
TRITONSERVER_Error *TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend *backend,
    TRITONBACKEND_ExecutionPolicy policy);
TRITONSERVER_Error *TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend *backend, TRITONBACKEND_ArtifactType
    *artifact_type, const char **location);
TRITONSERVER_Error *TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend *backend, TRITONBACKEND_MemoryManager
    **manager);
TRITONSERVER_Error *TRITONBACKEND_BackendState(TRITONBACKEND_Backend *backend, void **state);
TRITONSERVER_Error *TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend *backend, void *state);
TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name);
TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *model, uint64_t *version);
TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model, TRITONBACKEND_ArtifactType
    *artifact_type, const char **location);
TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version,
    TRITONSERVER_Message **model_config);
TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *model, bool *auto_complete_config);
TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, uint32_t config_version,
    TRITONSERVER_Message *model_config);
TRITONSERVER_Error *TRITONBACKEND_ModelServer(TRITONBACKEND_Model *model, TRITONSERVER_Server **server);
TRITONSERVER_Error *TRITONBACKEND_ModelBackend(TRITONBACKEND_Model *model, TRITONBACKEND_Backend **backend);
TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *model, void **state);
TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *model, void *state);
TRITONSERVER_Error *TRITONBACKEND_ModelReportMemoryUsage(TRITONBACKEND_Model *model, TRITONSERVER_BufferAttributes
    **usage, uint32_t usage_size);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *instance, const char **name);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance *instance,
    TRITONSERVER_InstanceGroupKind *kind);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *instance, int32_t *device_id);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceHostPolicy(TRITONBACKEND_ModelInstance *instance, TRITONSERVER_Message
    **host_policy);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceIsPassive(TRITONBACKEND_ModelInstance *instance, bool *is_passive);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileCount(TRITONBACKEND_ModelInstance *instance, uint32_t *count);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileName(TRITONBACKEND_ModelInstance *instance, uint32_t index,
    const char **profile_name);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceCount(TRITONBACKEND_ModelInstance *instance, uint32_t
    *count);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(TRITONBACKEND_ModelInstance *instance,
    uint32_t index, const char **kind, int64_t *id);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Model
    **model);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *instance, void **state);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *instance, void *state);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(TRITONBACKEND_ModelInstance *instance,
    TRITONSERVER_BufferAttributes **usage, uint32_t usage_size);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance *instance,
    TRITONBACKEND_Request *request, bool success, uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t
    compute_end_ns, uint64_t exec_end_ns);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(TRITONBACKEND_ModelInstanceResponseStatistics
    **statistics);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics);
TRITONSERVER_Error
    *TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics, TRITONBACKEND_ModelInstance *model_instance);
TRITONSERVER_Error
    *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics, TRITONBACKEND_ResponseFactory *response_factory);
TRITONSERVER_Error
    *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics, uint64_t response_start);
TRITONSERVER_Error
    *TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics, uint64_t compute_output_start);
TRITONSERVER_Error
    *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics, uint64_t response_end);
TRITONSERVER_Error
    *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(TRITONBACKEND_ModelInstanceResponseStatistics *statistics,
    TRITONSERVER_Error *error);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(TRITONBACKEND_ModelInstanceResponseStatistics
    *statistics);
TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance *instance, uint64_t
    batch_size, uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns);
TRITONSERVER_Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute
    *attributes, TRITONSERVER_InstanceGroupKind kind, uint64_t count, const uint64_t *device_ids, uint64_t id_count);
TRITONSERVER_Error *TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(TRITONBACKEND_BackendAttribute
    *attributes, bool enabled);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif

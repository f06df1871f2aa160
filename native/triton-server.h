// The functions of Triton's own server by which a program runs models in it, and backends call other models. The library of the host does not
// have them: triton-server.c finds them in Triton's libtritonserver.so.
#ifndef GALATEA_TRITON_SERVER_H
#define GALATEA_TRITON_SERVER_H

#include "triton-api.h"

// Errors of Triton's library and those of the host must not be mixed up, so the host gives them another type.
#ifndef SERVER_ERROR
#define SERVER_ERROR TRITONSERVER_Error
#endif

typedef struct TRITONSERVER_InferenceRequest TRITONSERVER_InferenceRequest;
typedef struct TRITONSERVER_InferenceResponse TRITONSERVER_InferenceResponse;
typedef struct TRITONSERVER_ResponseAllocator TRITONSERVER_ResponseAllocator;
typedef struct TRITONSERVER_ServerOptions TRITONSERVER_ServerOptions;

enum { MODEL_CONTROL_EXPLICIT = 2 };

typedef SERVER_ERROR *(*AllocateOutput)(TRITONSERVER_ResponseAllocator *allocator, const char *name, size_t bytes,
  TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, void *user, void **buffer, void **buffer_user,
  TRITONSERVER_MemoryType *actual_memory_type, int64_t *actual_memory_type_id);
typedef SERVER_ERROR *(*ReleaseOutput)(TRITONSERVER_ResponseAllocator *allocator, void *buffer, void *buffer_user, size_t bytes,
  TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);
typedef SERVER_ERROR *(*StartOutputs)(TRITONSERVER_ResponseAllocator *allocator, void *user);
typedef void (*OnRequestReleased)(TRITONSERVER_InferenceRequest *request, uint32_t flags, void *user);
typedef void (*OnResponse)(TRITONSERVER_InferenceResponse *response, uint32_t flags, void *user);

// One FUNCTION(result, name without TRITONSERVER_, arguments) for each.
#define SERVER_FUNCTIONS(FUNCTION) \
  FUNCTION(SERVER_ERROR *, ErrorNew, (TRITONSERVER_Error_Code code, const char *text)) \
  FUNCTION(TRITONSERVER_Error_Code, ErrorCode, (SERVER_ERROR *error)) \
  FUNCTION(const char *, ErrorMessage, (SERVER_ERROR *error)) \
  FUNCTION(void, ErrorDelete, (SERVER_ERROR *error)) \
  FUNCTION(SERVER_ERROR *, MessageSerializeToJson, (TRITONSERVER_Message *message, const char **base, size_t *bytes)) \
  FUNCTION(SERVER_ERROR *, MessageDelete, (TRITONSERVER_Message *message)) \
  FUNCTION(TRITONSERVER_Parameter *, ParameterNew, (const char *name, TRITONSERVER_ParameterType type, const void *value)) \
  FUNCTION(void, ParameterDelete, (TRITONSERVER_Parameter *parameter)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsNew, (TRITONSERVER_ServerOptions **options)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsDelete, (TRITONSERVER_ServerOptions *options)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetModelRepositoryPath, (TRITONSERVER_ServerOptions *options, const char *path)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetModelControlMode, (TRITONSERVER_ServerOptions *options, int mode)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetBackendDirectory, (TRITONSERVER_ServerOptions *options, const char *path)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetBackendConfig, (TRITONSERVER_ServerOptions *options, const char *backend, \
    const char *key, const char *value)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetStrictModelConfig, (TRITONSERVER_ServerOptions *options, bool is_strict)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetLogVerbose, (TRITONSERVER_ServerOptions *options, int level)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetLogInfo, (TRITONSERVER_ServerOptions *options, bool is_on)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetMetrics, (TRITONSERVER_ServerOptions *options, bool is_on)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetGpuMetrics, (TRITONSERVER_ServerOptions *options, bool is_on)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetCpuMetrics, (TRITONSERVER_ServerOptions *options, bool is_on)) \
  FUNCTION(SERVER_ERROR *, ServerOptionsSetExitOnError, (TRITONSERVER_ServerOptions *options, bool is_on)) \
  FUNCTION(SERVER_ERROR *, ServerNew, (TRITONSERVER_Server **server, TRITONSERVER_ServerOptions *options)) \
  FUNCTION(SERVER_ERROR *, ServerRegisterModelRepository, (TRITONSERVER_Server *server, const char *path, \
    const TRITONSERVER_Parameter **names, uint32_t count)) \
  FUNCTION(SERVER_ERROR *, ServerLoadModel, (TRITONSERVER_Server *server, const char *model)) \
  FUNCTION(SERVER_ERROR *, ServerLoadModelWithParameters, (TRITONSERVER_Server *server, const char *model, \
    const TRITONSERVER_Parameter **parameters, uint64_t count)) \
  FUNCTION(SERVER_ERROR *, ServerUnloadModel, (TRITONSERVER_Server *server, const char *model)) \
  FUNCTION(SERVER_ERROR *, ServerModelIndex, (TRITONSERVER_Server *server, uint32_t flags, TRITONSERVER_Message **index)) \
  FUNCTION(SERVER_ERROR *, ServerModelConfig, (TRITONSERVER_Server *server, const char *model, int64_t version, \
    uint32_t config_version, TRITONSERVER_Message **config)) \
  FUNCTION(SERVER_ERROR *, ServerInferAsync, (TRITONSERVER_Server *server, TRITONSERVER_InferenceRequest *request, \
    TRITONSERVER_InferenceTrace *trace)) \
  FUNCTION(SERVER_ERROR *, ResponseAllocatorNew, (TRITONSERVER_ResponseAllocator **allocator, AllocateOutput allocate, \
    ReleaseOutput release, StartOutputs start)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestNew, (TRITONSERVER_InferenceRequest **request, TRITONSERVER_Server *server, \
    const char *model, int64_t version)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestDelete, (TRITONSERVER_InferenceRequest *request)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetId, (TRITONSERVER_InferenceRequest *request, const char *id)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetFlags, (TRITONSERVER_InferenceRequest *request, uint32_t flags)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetCorrelationId, (TRITONSERVER_InferenceRequest *request, uint64_t id)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetCorrelationIdString, (TRITONSERVER_InferenceRequest *request, const char *id)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetTimeoutMicroseconds, (TRITONSERVER_InferenceRequest *request, uint64_t timeout)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestAddInput, (TRITONSERVER_InferenceRequest *request, const char *name, \
    TRITONSERVER_DataType type, const int64_t *shape, uint64_t rank)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestAppendInputData, (TRITONSERVER_InferenceRequest *request, const char *name, \
    const void *base, size_t bytes, TRITONSERVER_MemoryType memory_type, int64_t memory_type_id)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestAddRequestedOutput, (TRITONSERVER_InferenceRequest *request, const char *name)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetStringParameter, (TRITONSERVER_InferenceRequest *request, const char *name, \
    const char *value)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetIntParameter, (TRITONSERVER_InferenceRequest *request, const char *name, \
    int64_t value)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetBoolParameter, (TRITONSERVER_InferenceRequest *request, const char *name, bool value)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetDoubleParameter, (TRITONSERVER_InferenceRequest *request, const char *name, \
    double value)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetReleaseCallback, (TRITONSERVER_InferenceRequest *request, OnRequestReleased call, \
    void *user)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestSetResponseCallback, (TRITONSERVER_InferenceRequest *request, \
    TRITONSERVER_ResponseAllocator *allocator, void *allocator_user, OnResponse call, void *user)) \
  FUNCTION(SERVER_ERROR *, InferenceRequestCancel, (TRITONSERVER_InferenceRequest *request)) \
  FUNCTION(SERVER_ERROR *, InferenceResponseError, (TRITONSERVER_InferenceResponse *response)) \
  FUNCTION(SERVER_ERROR *, InferenceResponseDelete, (TRITONSERVER_InferenceResponse *response)) \
  FUNCTION(SERVER_ERROR *, InferenceResponseOutputCount, (TRITONSERVER_InferenceResponse *response, uint32_t *count)) \
  FUNCTION(SERVER_ERROR *, InferenceResponseOutput, (TRITONSERVER_InferenceResponse *response, uint32_t index, const char **name, \
    TRITONSERVER_DataType *type, const int64_t **shape, uint64_t *rank, const void **base, size_t *bytes, \
    TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id, void **buffer_user)) \
  FUNCTION(SERVER_ERROR *, InferenceResponseParameterCount, (TRITONSERVER_InferenceResponse *response, uint32_t *count)) \
  FUNCTION(SERVER_ERROR *, InferenceResponseParameter, (TRITONSERVER_InferenceResponse *response, uint32_t index, \
    const char **name, TRITONSERVER_ParameterType *type, const void **value))

#endif

// Requests: read out of a frame with every size checked, and shown to the backend.
#include <stdlib.h>
#include "host.h"

Pool request_pool = POOL(TRITONBACKEND_Request, 0x52455130);
Pool trace_pool = POOL(TRITONSERVER_InferenceTrace, 0x54524330);

typedef struct { Frame *frame; size_t at; bool is_good; } Cursor;

// The next bytes of the frame; NULL, and from then on always, when it is too short.
static const char *take(Cursor *cursor, size_t bytes) {
  if (!cursor->is_good || bytes > cursor->frame->size - cursor->at) {
    cursor->is_good = false;
    return NULL;
  }
  const char *found = cursor->frame->bytes + cursor->at;
  cursor->at += bytes;
  return found;
}

static uint64_t number_at(const char *bytes, size_t size) {
  uint64_t value = 0;
  memcpy(&value, bytes, size);
  return value;
}

// ---- reading

// Keeps a text, ended with a zero, as long as the request lives. The texts of a request are found by their places, because the memory
// moves while it grows.
static size_t keep_text(TRITONBACKEND_Request *request, const char *text, size_t bytes) {
  size_t place = request->texts.size;
  text_add(&request->texts, text, bytes);
  text_add(&request->texts, "", 1);
  return place;
}

static bool read_input(TRITONBACKEND_Request *request, Cursor *cursor, Input *input) {
  const char *head = take(cursor, TENSOR_HEAD_BYTES);
  if (head == NULL) return false;
  uint64_t index = number_at(head, 2);
  input->type = (TRITONSERVER_DataType)number_at(head + 2, 1);
  input->rank = (uint32_t)number_at(head + 3, 1);
  input->is_shared = number_at(head + 4, 4) == TENSOR_SHARED;
  input->block = number_at(head + 8, 8);
  input->size = number_at(head + 16, 8);
  input->shape = (const int64_t *)take(cursor, 8 * (size_t)input->rank);
  if (!cursor->is_good) return false;
  TRITONBACKEND_Model *model = request->instance->model;
  if (index == TENSOR_NAMED) {
    const char *length = take(cursor, 8);
    uint64_t bytes = length == NULL ? 0 : number_at(length, 8);
    const char *name = bytes > cursor->frame->size ? NULL : take(cursor, align_to(bytes, 8));
    if (name == NULL) return false;
    input->name = (const char *)keep_text(request, name, bytes);
  } else {
    if (index >= model->input_count) return false;
    input->name = (const char *)keep_text(request, model->inputs[index], strlen(model->inputs[index]));
  }
  if (input->is_shared) {
    Channel *channel = request->instance->channel;
    input->base = channel->has_memory ? region_view(&channel->inputs, input->block, input->size) : NULL;
    if (input->base == NULL) input->is_shared = false;
    return input->base != NULL;
  }
  if (input->size > cursor->frame->size || input->block > cursor->frame->size - input->size) return false;
  input->base = cursor->frame->bytes + input->block;
  return true;
}

static bool read_outputs(TRITONBACKEND_Request *request, Cursor *cursor, uint32_t count) {
  TRITONBACKEND_Model *model = request->instance->model;
  bool wants_all = (request->flags & REQUEST_ALL_OUTPUTS) != 0;
  uint32_t total = wants_all ? (uint32_t)model->output_count : count;
  if (total > request->output_capacity) {
    request->outputs = reallocate(request->outputs, total * sizeof *request->outputs);
    request->output_capacity = total;
  }
  request->output_count = 0;
  for (uint32_t i = 0; i < total; i++) {
    uint64_t index = i;
    if (!wants_all) {
      const char *bytes = take(cursor, 2);
      if (bytes == NULL) return false;
      index = number_at(bytes, 2);
    }
    if (index >= model->output_count) return false;
    // The server wants states as outputs. A backend does not know them as such.
    if (!state_is_hidden(model, model->outputs[index])) request->outputs[request->output_count++] = model->outputs[index];
  }
  return true;
}

static void read_parameters(TRITONBACKEND_Request *request, const char *text, size_t bytes) {
  Json *values = json_parse(text, bytes);
  uint32_t count = 0;
  for (Json *each = values == NULL ? NULL : values->first; each != NULL; each = each->next) count++;
  request->parameters = count == 0 ? NULL : allocate(count * sizeof *request->parameters);
  for (Json *each = values == NULL ? NULL : values->first; each != NULL; each = each->next) {
    bool flag = each->kind == JSON_TRUE;
    const void *value = each->kind == JSON_STRING ? (const void *)each->text
      : each->kind == JSON_INTEGER ? (const void *)&each->integer
      : each->kind == JSON_NUMBER ? (const void *)&each->number : (const void *)&flag;
    TRITONSERVER_ParameterType type = each->kind == JSON_STRING ? TRITONSERVER_PARAMETER_STRING
      : each->kind == JSON_INTEGER ? TRITONSERVER_PARAMETER_INT
      : each->kind == JSON_NUMBER ? TRITONSERVER_PARAMETER_DOUBLE : TRITONSERVER_PARAMETER_BOOL;
    request->parameters[request->parameter_count++] = TRITONSERVER_ParameterNew(each->name, type, value);
  }
  json_free(values);
}

static TRITONSERVER_InferenceTrace *read_trace(TRITONBACKEND_Request *request, uint64_t handle, Cursor *cursor) {
  const char *length = take(cursor, 2);
  size_t bytes = length == NULL ? 0 : number_at(length, 2);
  const char *context = take(cursor, bytes);
  if (context == NULL) return NULL;
  TRITONSERVER_InferenceTrace *trace = pool_take(&trace_pool);
  trace->handle = handle;
  trace->channel = request->instance->channel;
  trace->model = request->instance->model;
  trace->context = copy_text(context, bytes);
  trace->request_id = NULL;
  return trace;
}

static TRITONBACKEND_Request *request_new(TRITONBACKEND_ModelInstance *instance, Frame *frame, uint32_t inputs) {
  TRITONBACKEND_Request *request = pool_take(&request_pool);
  request->instance = instance;
  request->frame = frame;
  atomic_fetch_add(&frame->users, 1);
  if (inputs > request->input_capacity) {
    request->inputs = reallocate(request->inputs, inputs * sizeof *request->inputs);
    request->input_capacity = inputs;
  }
  request->input_count = request->output_count = request->parameter_count = 0;
  request->parameters = NULL;
  request->texts.size = 0;
  request->trace = NULL;
  request->exchange = NULL;
  return request;
}

TRITONBACKEND_Request *request_read(TRITONBACKEND_ModelInstance *instance, Frame *frame, size_t *offset) {
  Cursor cursor = {frame, *offset, true};
  const char *head = take(&cursor, REQUEST_HEAD_BYTES);
  if (head == NULL) return NULL;
  uint32_t inputs = (uint32_t)number_at(head + 32, 2);
  TRITONBACKEND_Request *request = request_new(instance, frame, inputs);
  uint64_t handle = number_at(head, 8);
  request->correlation = number_at(head + 8, 8);
  request->timeout_us = number_at(head + 16, 8);
  request->flags = (uint32_t)number_at(head + 24, 4);
  request->exchange = exchange_begin(instance->channel, handle, (request->flags & REQUEST_IS_CANCELLED) != 0);
  bool is_good = true;
  for (uint32_t i = 0; is_good && i < inputs; i++) {
    is_good = read_input(request, &cursor, &request->inputs[i]);
    if (is_good) request->input_count++;
  }
  is_good = is_good && read_outputs(request, &cursor, (uint32_t)number_at(head + 34, 2));
  size_t id_bytes = number_at(head + 28, 2), text_bytes = number_at(head + 30, 2), parameter_bytes = number_at(head + 36, 4);
  const char *id = take(&cursor, id_bytes), *text = take(&cursor, text_bytes), *parameters = take(&cursor, parameter_bytes);
  if (is_good && cursor.is_good) {
    size_t id_at = keep_text(request, id, id_bytes), text_at = keep_text(request, text, text_bytes);
    if (parameter_bytes > 0) read_parameters(request, parameters, parameter_bytes);
    if ((request->flags & REQUEST_TRACED) != 0) request->trace = read_trace(request, handle, &cursor);
    request->id = request->texts.bytes + id_at;
    request->correlation_text = request->texts.bytes + text_at;
    if (request->trace != NULL) request->trace->request_id = copy_text(request->id, id_bytes);
  }
  if (!is_good || !cursor.is_good) {
    exchange_end(request->exchange);
    request_free(request);
    return NULL;
  }
  // Now that the texts no longer move, places become addresses.
  for (uint32_t i = 0; i < inputs; i++) request->inputs[i].name = request->texts.bytes + (size_t)request->inputs[i].name;
  *offset = align_to(cursor.at, 8);
  return request;
}

void request_free(TRITONBACKEND_Request *request) {
  Channel *channel = request->instance->channel;
  for (uint32_t i = 0; i < request->input_count; i++)
    if (request->inputs[i].is_shared) channel_free_input(channel, request->inputs[i].block);
  for (uint32_t i = 0; i < request->parameter_count; i++) TRITONSERVER_ParameterDelete(request->parameters[i]);
  free(request->parameters);
  request->parameters = NULL;
  if (request->trace != NULL) {
    free(request->trace->context);
    free(request->trace->request_id);
    pool_give(&trace_pool, request->trace);
    request->trace = NULL;
  }
  frame_release(request->frame);
  request->frame = NULL;
  Exchange *exchange = request->exchange;
  request->exchange = NULL;
  pool_give(&request_pool, request);
  exchange_close(exchange);
  exchange_release(exchange);
}

// ---- what a backend asks of a request

#define REQUIRE_REQUEST(request) if (!pool_lives(&request_pool, request)) return fail_stale(request, "request")

Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id) {
  REQUIRE_REQUEST(request);
  *id = request->id;
  return NULL;
}

Error *TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *request, uint64_t *id) {
  REQUIRE_REQUEST(request);
  if ((request->flags & REQUEST_TEXT_CORRELATION) != 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "[request id: %s] correlation ID in request is not an unsigned int",
      *request->id == 0 ? "<id_unknown>" : request->id);
  *id = request->correlation;
  return NULL;
}

Error *TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *request, const char **id) {
  REQUIRE_REQUEST(request);
  if ((request->flags & REQUEST_TEXT_CORRELATION) == 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "[request id: %s] correlation ID in request is not a string",
      *request->id == 0 ? "<id_unknown>" : request->id);
  *id = request->correlation_text;
  return NULL;
}

Error *TRITONBACKEND_RequestFlags(TRITONBACKEND_Request *request, uint32_t *flags) {
  REQUIRE_REQUEST(request);
  *flags = request->flags & (REQUEST_SEQUENCE_START | REQUEST_SEQUENCE_END);
  return NULL;
}

Error *TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request *request, uint64_t *timeout) {
  REQUIRE_REQUEST(request);
  *timeout = request->timeout_us;
  return NULL;
}

Error *TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request *request, bool *is_cancelled) {
  REQUIRE_REQUEST(request);
  channel_poll(request->exchange->channel);
  *is_cancelled = atomic_load(&request->exchange->is_cancelled);
  return NULL;
}

Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request, uint32_t *count) {
  REQUIRE_REQUEST(request);
  *count = request->parameter_count;
  return NULL;
}

Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index, const char **key,
    TRITONSERVER_ParameterType *type, const void **vvalue) {
  REQUIRE_REQUEST(request);
  if (index >= request->parameter_count)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index %u: request has %u parameters", index,
      request->parameter_count);
  TRITONSERVER_Parameter *parameter = request->parameters[index];
  *key = parameter->name;
  *type = parameter->type;
  *vvalue = parameter->type == TRITONSERVER_PARAMETER_STRING ? (const void *)parameter->text
    : parameter->type == TRITONSERVER_PARAMETER_INT ? (const void *)&parameter->integer
    : parameter->type == TRITONSERVER_PARAMETER_DOUBLE ? (const void *)&parameter->number : (const void *)&parameter->flag;
  return NULL;
}

static Error *no_such(const char *what, uint32_t index, uint32_t count) {
  return fail(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index %u: request has %u %s", index, count, what);
}

Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count) {
  REQUIRE_REQUEST(request);
  *count = request->input_count;
  return NULL;
}

Error *TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *request, uint32_t index, const char **input_name) {
  *input_name = NULL;
  REQUIRE_REQUEST(request);
  if (index >= request->input_count) return no_such("inputs", index, request->input_count);
  *input_name = request->inputs[index].name;
  return NULL;
}

Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name, TRITONBACKEND_Input **input) {
  *input = NULL;
  REQUIRE_REQUEST(request);
  for (uint32_t i = 0; i < request->input_count && *input == NULL; i++)
    if (strcmp(request->inputs[i].name, name) == 0) *input = &request->inputs[i];
  if (*input != NULL) return NULL;
  return fail(TRITONSERVER_ERROR_INVALID_ARG, "[request id: %s] unknown request input name %s",
    *request->id == 0 ? "<id_unknown>" : request->id, name);
}

Error *TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request *request, uint32_t index, TRITONBACKEND_Input **input) {
  *input = NULL;
  REQUIRE_REQUEST(request);
  if (index >= request->input_count) return no_such("inputs", index, request->input_count);
  *input = &request->inputs[index];
  return NULL;
}

Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request, uint32_t *count) {
  REQUIRE_REQUEST(request);
  *count = request->output_count;
  return NULL;
}

Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index, const char **output_name) {
  *output_name = NULL;
  REQUIRE_REQUEST(request);
  if (index >= request->output_count) return no_such("requested outputs", index, request->output_count);
  *output_name = request->outputs[index];
  return NULL;
}

Error *TRITONBACKEND_RequestOutputBufferProperties(TRITONBACKEND_Request *request, const char *name, size_t *byte_size,
    TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
  (void)name;
  (void)byte_size;
  REQUIRE_REQUEST(request);
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  return NULL;
}

Error *TRITONBACKEND_RequestRelease(TRITONBACKEND_Request *request, uint32_t release_flags) {
  REQUIRE_REQUEST(request);
  if ((release_flags & TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) != 0) {
    // The backend still has the request then, and answers it with this error.
    if (!request->instance->model->is_iterative)
      return fail(TRITONSERVER_ERROR_INVALID_ARG,
        "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, while the model is not configured to handle such a flag.");
    atomic_store(&request->exchange->is_rescheduled, true);
  }
  request_free(request);
  return NULL;
}

// ---- inputs

Error *TRITONBACKEND_InputProperties(TRITONBACKEND_Input *input, const char **name, TRITONSERVER_DataType *datatype,
    const int64_t **shape, uint32_t *dims_count, uint64_t *byte_size, uint32_t *buffer_count) {
  if (name != NULL) *name = input->name;
  if (datatype != NULL) *datatype = input->type;
  if (shape != NULL) *shape = input->shape;
  if (dims_count != NULL) *dims_count = input->rank;
  if (byte_size != NULL) *byte_size = input->size;
  if (buffer_count != NULL) *buffer_count = input->size == 0 ? 0 : 1;
  return NULL;
}

Error *TRITONBACKEND_InputPropertiesForHostPolicy(TRITONBACKEND_Input *input, const char *host_policy_name,
    const char **name, TRITONSERVER_DataType *datatype, const int64_t **shape, uint32_t *dims_count, uint64_t *byte_size,
    uint32_t *buffer_count) {
  (void)host_policy_name;
  return TRITONBACKEND_InputProperties(input, name, datatype, shape, dims_count, byte_size, buffer_count);
}

Error *TRITONBACKEND_InputBuffer(TRITONBACKEND_Input *input, uint32_t index, const void **buffer,
    uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
  if (index > 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index %u: input '%s' has 1 buffer", index, input->name);
  *buffer = input->base;
  *buffer_byte_size = input->size;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  return NULL;
}

Error *TRITONBACKEND_InputBufferForHostPolicy(TRITONBACKEND_Input *input, const char *host_policy_name, uint32_t index,
    const void **buffer, uint64_t *buffer_byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
  (void)host_policy_name;
  return TRITONBACKEND_InputBuffer(input, index, buffer, buffer_byte_size, memory_type, memory_type_id);
}

Error *TRITONBACKEND_InputBufferAttributes(TRITONBACKEND_Input *input, uint32_t index, const void **buffer,
    TRITONSERVER_BufferAttributes **attributes) {
  if (index > 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index %u: input '%s' has 1 buffer", index, input->name);
  *buffer = input->base;
  input->attributes = (TRITONSERVER_BufferAttributes){.size = input->size, .type = TRITONSERVER_MEMORY_CPU};
  *attributes = &input->attributes;
  return NULL;
}

// ---- traces

Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *request, TRITONSERVER_InferenceTrace **trace) {
  REQUIRE_REQUEST(request);
  *trace = request->trace;
  return NULL;
}

Error *TRITONSERVER_InferenceTraceReportActivity(TRITONSERVER_InferenceTrace *trace, uint64_t timestamp,
    const char *activity_name) {
  if (!pool_lives(&trace_pool, trace)) return fail_stale(trace, "trace");
  Text body = {0};
  uint64_t bytes = strlen(activity_name);
  text_add(&body, &timestamp, 8);
  text_add(&body, &bytes, 8);
  text_add(&body, activity_name, bytes);
  channel_defer(trace->channel, FROM_ACTIVITY, 0, trace->handle, body.bytes, body.size);
  text_free(&body);
  return NULL;
}

#define GIVE_OF_TRACE(function, result_type, value) \
  Error *function(TRITONSERVER_InferenceTrace *trace, result_type *result) { \
    if (!pool_lives(&trace_pool, trace)) return fail_stale(trace, "trace"); \
    *result = value; \
    return NULL; \
  }
GIVE_OF_TRACE(TRITONSERVER_InferenceTraceContext, const char *, trace->context)
GIVE_OF_TRACE(TRITONSERVER_InferenceTraceId, uint64_t, trace->handle)
GIVE_OF_TRACE(TRITONSERVER_InferenceTraceParentId, uint64_t, 0)
GIVE_OF_TRACE(TRITONSERVER_InferenceTraceModelName, const char *, trace->model->name)
GIVE_OF_TRACE(TRITONSERVER_InferenceTraceModelVersion, int64_t, (int64_t)trace->model->version)
GIVE_OF_TRACE(TRITONSERVER_InferenceTraceRequestId, const char *, trace->request_id == NULL ? "" : trace->request_id)

Error *TRITONSERVER_InferenceTraceSpawnChildTrace(TRITONSERVER_InferenceTrace *trace,
    TRITONSERVER_InferenceTrace **child_trace) {
  (void)trace;
  *child_trace = NULL;
  return fail(TRITONSERVER_ERROR_UNSUPPORTED, "a backend in this host makes no requests, so it has no child traces");
}

Error *TRITONSERVER_InferenceTraceDelete(TRITONSERVER_InferenceTrace *trace) {
  (void)trace;
  return fail(TRITONSERVER_ERROR_UNSUPPORTED, "the trace of a request ends with the request");
}

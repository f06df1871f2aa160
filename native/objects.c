// Errors, messages, parameters, attributes of buffers, and the names of Triton's numbers.
#include <stdio.h>
#include <stdlib.h>
#include "host.h"

Pool error_pool = POOL(TRITONSERVER_Error, 0x45525230);
Pool message_pool = POOL(TRITONSERVER_Message, 0x4d455330);
Pool parameter_pool = POOL(TRITONSERVER_Parameter, 0x50415230);
Pool attributes_pool = POOL(TRITONSERVER_BufferAttributes, 0x41545430);

// ---- errors

static Error *error_new(TRITONSERVER_Error_Code code, char *text) {
  Error *error = pool_take(&error_pool);
  error->code = code;
  error->text = text;
  return error;
}

Error *fail(TRITONSERVER_Error_Code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = print_text(format, arguments);
  va_end(arguments);
  return error_new(code, text);
}

Error *fail_stale(const void *object, const char *what) {
  if (object != NULL) LOG_ERROR("the backend used a %s that it had already given back", what);
  return fail(TRITONSERVER_ERROR_INVALID_ARG, "the %s is not, or no longer, one of this server", what);
}

Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *msg) {
  const char *text = msg == NULL ? "" : msg;
  return error_new(code, copy_text(text, strlen(text)));
}

void TRITONSERVER_ErrorDelete(Error *error) {
  if (!pool_lives(&error_pool, error)) return;
  free(error->text);
  error->text = NULL;
  pool_give(&error_pool, error);
}

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(Error *error) { return error->code; }
const char *TRITONSERVER_ErrorMessage(Error *error) { return error->text == NULL ? "" : error->text; }

const char *TRITONSERVER_ErrorCodeString(Error *error) {
  static const char *names[] = {"Unknown", "Internal", "Not found", "Invalid argument", "Unavailable", "Unsupported",
    "Already exists", "Cancelled"};
  return (size_t)error->code < sizeof names / sizeof *names ? names[error->code] : "<invalid code>";
}

// ---- messages

TRITONSERVER_Message *message_new(const char *bytes, size_t size) {
  TRITONSERVER_Message *message = pool_take(&message_pool);
  message->bytes = copy_text(bytes, size);
  message->size = size;
  return message;
}

void message_free(TRITONSERVER_Message *message) {
  if (!pool_lives(&message_pool, message)) return;
  free(message->bytes);
  message->bytes = NULL;
  pool_give(&message_pool, message);
}

Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **message, const char *base, size_t byte_size) {
  Json *value = json_parse(base, byte_size);
  if (value == NULL) return fail(TRITONSERVER_ERROR_INVALID_ARG, "failed to parse JSON of %zu bytes", byte_size);
  json_free(value);
  *message = message_new(base, byte_size);
  return NULL;
}

Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *message) {
  if (!pool_lives(&message_pool, message)) return fail_stale(message, "message");
  message_free(message);
  return NULL;
}

Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *message, const char **base, size_t *byte_size) {
  if (!pool_lives(&message_pool, message)) return fail_stale(message, "message");
  *base = message->bytes;
  *byte_size = message->size;
  return NULL;
}

// ---- parameters

static TRITONSERVER_Parameter *parameter_new(const char *name, TRITONSERVER_ParameterType type) {
  TRITONSERVER_Parameter *parameter = pool_take(&parameter_pool);
  parameter->name = copy_text(name == NULL ? "" : name, name == NULL ? 0 : strlen(name));
  parameter->type = type;
  parameter->text = NULL;
  parameter->size = 0;
  return parameter;
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterNew(const char *name, TRITONSERVER_ParameterType type, const void *value) {
  if (value == NULL || (unsigned)type > TRITONSERVER_PARAMETER_DOUBLE) return NULL;
  TRITONSERVER_Parameter *parameter = parameter_new(name, type);
  switch (type) {
    case TRITONSERVER_PARAMETER_STRING:
      parameter->size = strlen(value);
      parameter->text = copy_text(value, parameter->size);
      break;
    case TRITONSERVER_PARAMETER_INT: memcpy(&parameter->integer, value, sizeof parameter->integer); break;
    case TRITONSERVER_PARAMETER_BOOL: memcpy(&parameter->flag, value, sizeof parameter->flag); break;
    default: memcpy(&parameter->number, value, sizeof parameter->number);
  }
  return parameter;
}

TRITONSERVER_Parameter *TRITONSERVER_ParameterBytesNew(const char *name, const void *byte_ptr, uint64_t size) {
  TRITONSERVER_Parameter *parameter = parameter_new(name, TRITONSERVER_PARAMETER_BYTES);
  parameter->size = size;
  parameter->text = copy_text(byte_ptr, size);
  return parameter;
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter *parameter) {
  if (!pool_lives(&parameter_pool, parameter)) return;
  free(parameter->name);
  free(parameter->text);
  parameter->name = parameter->text = NULL;
  pool_give(&parameter_pool, parameter);
}

// ---- attributes of buffers

Error *TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes **attributes) {
  *attributes = pool_take(&attributes_pool);
  (*attributes)->size = 0;
  (*attributes)->type = TRITONSERVER_MEMORY_CPU;
  (*attributes)->id = 0;
  (*attributes)->ipc_handle = NULL;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes *attributes) {
  if (!pool_lives(&attributes_pool, attributes)) return fail_stale(attributes, "set of buffer attributes");
  pool_give(&attributes_pool, attributes);
  return NULL;
}

Error *TRITONSERVER_BufferAttributesSetMemoryTypeId(TRITONSERVER_BufferAttributes *attributes, int64_t memory_type_id) {
  attributes->id = memory_type_id;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesSetMemoryType(TRITONSERVER_BufferAttributes *attributes,
    TRITONSERVER_MemoryType memory_type) {
  attributes->type = memory_type;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes, void *cuda_ipc_handle) {
  attributes->ipc_handle = cuda_ipc_handle;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesSetByteSize(TRITONSERVER_BufferAttributes *attributes, size_t byte_size) {
  attributes->size = byte_size;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesMemoryTypeId(TRITONSERVER_BufferAttributes *attributes, int64_t *memory_type_id) {
  *memory_type_id = attributes->id;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesMemoryType(TRITONSERVER_BufferAttributes *attributes,
    TRITONSERVER_MemoryType *memory_type) {
  *memory_type = attributes->type;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesCudaIpcHandle(TRITONSERVER_BufferAttributes *attributes, void **cuda_ipc_handle) {
  *cuda_ipc_handle = attributes->ipc_handle;
  return NULL;
}

Error *TRITONSERVER_BufferAttributesByteSize(TRITONSERVER_BufferAttributes *attributes, size_t *byte_size) {
  *byte_size = attributes->size;
  return NULL;
}

// ---- names and sizes

static const struct { const char *name; uint32_t bytes; } data_types[] = {{"<invalid>", 0}, {"BOOL", 1}, {"UINT8", 1},
  {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8}, {"INT8", 1}, {"INT16", 2}, {"INT32", 4}, {"INT64", 8}, {"FP16", 2},
  {"FP32", 4}, {"FP64", 8}, {"BYTES", 0}, {"BF16", 2}};
#define DATA_TYPES (sizeof data_types / sizeof *data_types)

const char *TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype) {
  return data_types[(size_t)datatype < DATA_TYPES ? datatype : 0].name;
}

uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype) {
  return data_types[(size_t)datatype < DATA_TYPES ? datatype : 0].bytes;
}

TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char *dtype) {
  for (size_t i = 1; i < DATA_TYPES; i++)
    if (strcmp(dtype, data_types[i].name) == 0) return (TRITONSERVER_DataType)i;
  return TRITONSERVER_TYPE_INVALID;
}

const char *TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType memtype) {
  static const char *names[] = {"CPU", "CPU_PINNED", "GPU"};
  return (size_t)memtype < 3 ? names[memtype] : "<invalid>";
}

const char *TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType paramtype) {
  static const char *names[] = {"STRING", "INT", "BOOL", "DOUBLE", "BYTES"};
  return (size_t)paramtype < 5 ? names[paramtype] : "<invalid>";
}

const char *TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind) {
  static const char *names[] = {"AUTO", "CPU", "GPU", "MODEL"};
  return (size_t)kind < 4 ? names[kind] : "<invalid>";
}

// A backend refuses a server whose minor version is below its own. The host offers every function of the API, and the server has read
// the names that a library needs before the library is loaded, so no version is refused.
Error *TRITONSERVER_ApiVersion(uint32_t *major, uint32_t *minor) {
  *major = 1;
  *minor = 99;
  return NULL;
}

Error *TRITONBACKEND_ApiVersion(uint32_t *major, uint32_t *minor) { return TRITONSERVER_ApiVersion(major, minor); }

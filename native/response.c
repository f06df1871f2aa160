// Responses: made by the backend, checked here, and written into the frame of their execution or into one of their own.
#include <stdlib.h>
#include "host.h"

#define LARGEST_RANK 255
#define MOST_OUTPUTS 0xffff
// An execution that takes longer than this sends its answers as they come. Shorter ones send all at their end, in one write.
#define COLLECT_FOR_NS 1000000

Pool response_pool = POOL(TRITONBACKEND_Response, 0x52535030);
Pool output_pool = POOL(TRITONBACKEND_Output, 0x4f555430);
Pool factory_pool = POOL(TRITONBACKEND_ResponseFactory, 0x46414330);

#define REQUIRE_RESPONSE(response) if (!pool_lives(&response_pool, response)) return fail_stale(response, "response")
#define REQUIRE_FACTORY(factory) if (!pool_lives(&factory_pool, factory)) return fail_stale(factory, "response factory")

// ---- making

static TRITONBACKEND_Response *response_new(Exchange *exchange) {
  TRITONBACKEND_Response *response = pool_take(&response_pool);
  exchange_use(exchange);
  exchange_open(exchange);
  response->exchange = exchange;
  response->outputs = response->last_output = NULL;
  response->output_count = 0;
  response->parameters.size = 0;
  return response;
}

TRITONBACKEND_Output *output_new(Exchange *exchange, const char *name, TRITONSERVER_DataType type, const int64_t *shape,
    uint32_t rank) {
  TRITONBACKEND_Output *output = pool_take(&output_pool);
  output->exchange = exchange;
  output->name = copy_text(name, strlen(name));
  output->type = type;
  output->rank = rank;
  output->shape = allocate(sizeof(int64_t) * rank);
  if (rank > 0) memcpy(output->shape, shape, sizeof(int64_t) * rank);
  output->base = NULL;
  output->size = output->block = 0;
  output->is_shared = output->has_buffer = false;
  output->next = NULL;
  return output;
}

void output_free(TRITONBACKEND_Output *output, bool keeps_block) {
  if (output->is_shared && !keeps_block) region_give(&output->exchange->channel->outputs, output->block);
  if (!output->is_shared) free(output->base);
  free(output->name);
  free(output->shape);
  output->base = output->name = NULL;
  output->shape = NULL;
  pool_give(&output_pool, output);
}

static void response_free(TRITONBACKEND_Response *response, bool keeps_blocks) {
  for (TRITONBACKEND_Output *output = response->outputs, *next; output != NULL; output = next) {
    next = output->next;
    output_free(output, keeps_blocks);
  }
  Exchange *exchange = response->exchange;
  response->exchange = NULL;
  pool_give(&response_pool, response);
  exchange_close(exchange);
  exchange_release(exchange);
}

Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **response, TRITONBACKEND_Request *request) {
  *response = NULL;
  if (!pool_lives(&request_pool, request)) return fail_stale(request, "request");
  *response = response_new(request->exchange);
  return NULL;
}

Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **response, TRITONBACKEND_ResponseFactory *factory) {
  *response = NULL;
  REQUIRE_FACTORY(factory);
  *response = response_new(factory->exchange);
  return NULL;
}

Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *response) {
  REQUIRE_RESPONSE(response);
  response_free(response, false);
  return NULL;
}

Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory, TRITONBACKEND_Request *request) {
  *factory = NULL;
  if (!pool_lives(&request_pool, request)) return fail_stale(request, "request");
  *factory = pool_take(&factory_pool);
  exchange_use(request->exchange);
  (*factory)->exchange = request->exchange;
  return NULL;
}

Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory) {
  REQUIRE_FACTORY(factory);
  Exchange *exchange = factory->exchange;
  factory->exchange = NULL;
  pool_give(&factory_pool, factory);
  exchange_release(exchange);
  return NULL;
}

Error *TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory *factory, bool *is_cancelled) {
  REQUIRE_FACTORY(factory);
  channel_poll(factory->exchange->channel);
  *is_cancelled = atomic_load(&factory->exchange->is_cancelled);
  return NULL;
}

// ---- parameters

static Error *parameter_name(TRITONBACKEND_Response *response, const char *name) {
  REQUIRE_RESPONSE(response);
  text_add(&response->parameters, response->parameters.size == 0 ? "{" : ",", 1);
  text_json_string(&response->parameters, name);
  text_add(&response->parameters, ":", 1);
  return NULL;
}

Error *TRITONBACKEND_ResponseSetStringParameter(TRITONBACKEND_Response *response, const char *name, const char *value) {
  Error *error = parameter_name(response, name);
  if (error == NULL) text_json_string(&response->parameters, value);
  return error;
}

Error *TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *response, const char *name, int64_t value) {
  Error *error = parameter_name(response, name);
  if (error == NULL) text_print(&response->parameters, "%lld", (long long)value);
  return error;
}

Error *TRITONBACKEND_ResponseSetBoolParameter(TRITONBACKEND_Response *response, const char *name, bool value) {
  Error *error = parameter_name(response, name);
  if (error == NULL) text_print(&response->parameters, "%s", value ? "true" : "false");
  return error;
}

// With a point or an exponent always, so that the server knows a double from a whole number.
Error *TRITONBACKEND_ResponseSetDoubleParameter(TRITONBACKEND_Response *response, const char *name, double value) {
  Error *error = parameter_name(response, name);
  if (error != NULL) return error;
  bool is_finite = value == value && value - value == 0;
  size_t start = response->parameters.size;
  text_print(&response->parameters, is_finite ? "%.17g" : "null", value);
  if (is_finite && strpbrk(response->parameters.bytes + start, ".e") == NULL) text_add(&response->parameters, ".0", 2);
  return NULL;
}

// ---- outputs

void response_append(TRITONBACKEND_Response *response, TRITONBACKEND_Output *output) {
  if (response->last_output == NULL) response->outputs = output;
  else response->last_output->next = output;
  response->last_output = output;
  response->output_count++;
}

Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response, TRITONBACKEND_Output **output, const char *name,
    TRITONSERVER_DataType datatype, const int64_t *shape, uint32_t dims_count) {
  *output = NULL;
  REQUIRE_RESPONSE(response);
  if (dims_count > LARGEST_RANK)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "output '%s' has %u dimensions; at most %d are possible", name, dims_count,
      LARGEST_RANK);
  if (response->output_count == MOST_OUTPUTS) return fail(TRITONSERVER_ERROR_INVALID_ARG, "a response has too many outputs");
  TRITONBACKEND_Output *made = output_new(response->exchange, name, datatype, shape, dims_count);
  response_append(response, made);
  *output = made;
  return NULL;
}

// Large outputs are written where the server reads them. Small ones travel in the frame.
Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer, uint64_t buffer_byte_size,
    TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
  *buffer = NULL;
  if (!pool_lives(&output_pool, output)) return fail_stale(output, "output");
  if (output->has_buffer)
    return fail(TRITONSERVER_ERROR_ALREADY_EXISTS, "output '%s' already has a buffer", output->name);
  Channel *channel = output->exchange->channel;
  const TRITONBACKEND_Model *model = output->exchange->instance->model;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  if (channel->has_memory && buffer_byte_size > channel->inline_bytes) {
    output->base = region_take(&channel->outputs, buffer_byte_size, &output->block);
    // Blocks that the server has given back may wait in the socket.
    if (output->base == NULL) {
      channel_poll(channel);
      output->base = region_take(&channel->outputs, buffer_byte_size, &output->block);
    }
    output->is_shared = output->base != NULL;
    if (!output->is_shared)
      return fail(TRITONSERVER_ERROR_UNAVAILABLE,
        "outputs of model '%s' need more than %zu bytes of shared memory at once; the limit is "
        "--backend-config=%s,shm-max-byte-size", model->name, channel->outputs.limit, model->backend->name);
  } else if (buffer_byte_size > 0x40000000) {
    return fail(TRITONSERVER_ERROR_UNAVAILABLE, "an output of %llu bytes needs shared memory, which is not in use",
      (unsigned long long)buffer_byte_size);
  } else if (buffer_byte_size > 0) output->base = allocate(buffer_byte_size);
  output->size = buffer_byte_size;
  output->has_buffer = true;
  *buffer = output->base;
  return NULL;
}

Error *TRITONBACKEND_OutputBufferAttributes(TRITONBACKEND_Output *output, TRITONSERVER_BufferAttributes **attributes) {
  if (!pool_lives(&output_pool, output)) return fail_stale(output, "output");
  output->attributes = (TRITONSERVER_BufferAttributes){.size = output->size, .type = TRITONSERVER_MEMORY_CPU};
  *attributes = &output->attributes;
  return NULL;
}

// ---- checking

static bool strings_fit(const TRITONBACKEND_Output *output, uint64_t elements) {
  uint64_t at = 0, found = 0;
  while (at < output->size) {
    uint32_t bytes;
    if (output->size - at < 4) return false;
    memcpy(&bytes, (const char *)output->base + at, 4);
    if (bytes > output->size - at - 4) return false;
    at += 4 + (uint64_t)bytes;
    found++;
  }
  return found == elements;
}

static void print_shape(Text *text, const TRITONBACKEND_Output *output) {
  text_add(text, "[", 1);
  for (uint32_t i = 0; i < output->rank; i++) text_print(text, i == 0 ? "%lld" : ",%lld", (long long)output->shape[i]);
  text_add(text, "]", 1);
}

// What is wrong with an output, into `text`; false when nothing is.
static bool is_wrong(const TRITONBACKEND_Output *output, Text *text) {
  uint64_t elements = 1;
  for (uint32_t i = 0; i < output->rank; i++) {
    uint64_t size = (uint64_t)output->shape[i];
    if (output->shape[i] < 0 || (size != 0 && elements > (UINT64_MAX >> 8) / size)) {
      text_print(text, "the backend gave output '%s' the shape ", output->name);
      print_shape(text, output);
      text_print(text, ", which no tensor has");
      return true;
    }
    elements *= size;
  }
  uint32_t bytes = TRITONSERVER_DataTypeByteSize(output->type);
  if (output->type == TRITONSERVER_TYPE_BYTES) {
    if (strings_fit(output, elements)) return false;
    text_print(text, "the backend gave output '%s' of shape ", output->name);
    print_shape(text, output);
    text_print(text, " and type BYTES %llu bytes, which are not %llu strings with their lengths",
      (unsigned long long)output->size, (unsigned long long)elements);
    return true;
  }
  if (bytes == 0) {
    text_print(text, "the backend gave output '%s' the type %d, which is no type", output->name, (int)output->type);
    return true;
  }
  if (elements * bytes == output->size) return false;
  text_print(text, "the backend gave output '%s' of shape ", output->name);
  print_shape(text, output);
  text_print(text, " and type %s %llu bytes, but such a tensor has %llu", TRITONSERVER_DataTypeString(output->type),
    (unsigned long long)output->size, (unsigned long long)(elements * bytes));
  return true;
}

// ---- writing

static void write_head(Writer *writer, uint64_t handle, uint32_t outputs, uint8_t flags, uint8_t code, size_t text_bytes) {
  uint16_t output_count = (uint16_t)outputs;
  uint32_t bytes = (uint32_t)text_bytes;
  text_add(&writer->head, &handle, 8);
  text_add(&writer->head, &output_count, 2);
  text_add(&writer->head, &flags, 1);
  text_add(&writer->head, &code, 1);
  text_add(&writer->head, &bytes, 4);
}

static void write_text(Writer *writer, const char *text, size_t bytes) {
  text_add(&writer->head, text, bytes);
  text_pad(&writer->head, 8);
}

static void write_output(Writer *writer, const TRITONBACKEND_Output *output, const TRITONBACKEND_Model *model) {
  uint16_t index = TENSOR_NAMED;
  for (size_t i = 0; i < model->output_count && index == TENSOR_NAMED; i++)
    if (strcmp(model->outputs[i], output->name) == 0) index = (uint16_t)i;
  uint8_t type = (uint8_t)output->type, rank = (uint8_t)output->rank;
  uint32_t place = output->is_shared ? TENSOR_SHARED : TENSOR_INLINE;
  uint64_t offset = output->block, size = output->size;
  if (!output->is_shared) {
    text_pad(&writer->data, 16);
    offset = writer->data.size;
    text_add(&writer->data, output->base, output->size);
    if (writer->record_count == writer->record_capacity) {
      writer->record_capacity = writer->record_capacity * 2 + 16;
      writer->records = reallocate(writer->records, writer->record_capacity * sizeof *writer->records);
    }
    writer->records[writer->record_count++] = writer->head.size;
  }
  text_add(&writer->head, &index, 2);
  text_add(&writer->head, &type, 1);
  text_add(&writer->head, &rank, 1);
  text_add(&writer->head, &place, 4);
  text_add(&writer->head, &offset, 8);
  text_add(&writer->head, &size, 8);
  text_add(&writer->head, output->shape, 8 * (size_t)output->rank);
  if (index != TENSOR_NAMED) return;
  uint64_t name_bytes = strlen(output->name);
  text_add(&writer->head, &name_bytes, 8);
  write_text(writer, output->name, name_bytes);
}

// States become outputs of the response. One that the backend gave as an output too is sent once.
static void take_states(TRITONBACKEND_Response *response) {
  for (TRITONBACKEND_State *state = response->exchange->states; state != NULL; state = state->next) {
    TRITONBACKEND_Output *same = response->outputs;
    while (same != NULL && strcmp(same->name, state->output->name) != 0) same = same->next;
    if (!state->is_updated || same != NULL || response->output_count == MOST_OUTPUTS) continue;
    response_append(response, state->output);
    state->output = NULL;
  }
  states_free(response->exchange);
}

static uint64_t write_response(Writer *writer, TRITONBACKEND_Response *response, bool is_final) {
  uint64_t handle = response->exchange->handle, bytes = 0;
  uint8_t flags = is_final ? RESPONSE_FINAL : 0;
  Text *parameters = &response->parameters;
  if (parameters->size > 0) {
    text_add(parameters, "}", 1);
    flags |= RESPONSE_PARAMETERS;
  }
  write_head(writer, handle, response->output_count, flags, 0, parameters->size);
  for (TRITONBACKEND_Output *output = response->outputs; output != NULL; output = output->next) {
    write_output(writer, output, response->exchange->instance->model);
    bytes += output->size;
  }
  if (parameters->size > 0) write_text(writer, parameters->bytes, parameters->size);
  return bytes;
}

static void write_plain(Writer *writer, uint64_t handle, bool is_final, TRITONSERVER_Error_Code code, const char *text) {
  uint8_t flags = is_final ? RESPONSE_FINAL : 0;
  if (text == NULL) write_head(writer, handle, 0, flags | RESPONSE_FLAG_ONLY, 0, 0);
  else {
    size_t bytes = strlen(text);
    write_head(writer, handle, 0, flags | RESPONSE_ERROR, (uint8_t)code, bytes);
    write_text(writer, text, bytes);
  }
}

// The writer of the execution of this thread, or one for a single answer.
static Writer *writer_for(Execution *execution, Writer *alone) {
  if (execution != NULL) return &execution->writer;
  writer_begin(alone);
  return alone;
}

static void written(Execution *execution, Channel *channel, Writer *alone) {
  if (execution != NULL) {
    execution->count++;
    return;
  }
  writer_send(channel, alone, FROM_RESPONSE, 1, 0);
  text_free(&alone->head);
  text_free(&alone->data);
  free(alone->records);
}

static Execution *collector_of(Exchange *exchange, bool is_final) {
  Execution *execution = current_execution(exchange->channel);
  if (execution == NULL || !is_final || exchange->instance->model->is_decoupled) return NULL;
  bool is_full = execution->count == 0xffff;
  return is_full || now_ns() - execution->started_ns > COLLECT_FOR_NS ? NULL : execution;
}

void answer_plainly(Exchange *exchange, bool is_final, TRITONSERVER_Error_Code code, const char *text) {
  if (is_final && !exchange_end(exchange)) return;
  Writer alone = {0};
  Execution *execution = collector_of(exchange, is_final);
  write_plain(writer_for(execution, &alone), exchange->handle, is_final, code, text);
  written(execution, exchange->channel, &alone);
}

Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory, uint32_t send_flags) {
  REQUIRE_FACTORY(factory);
  if ((send_flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) == 0) return NULL;
  if (atomic_load(&factory->exchange->has_ended))
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "the request already has its final response");
  answer_plainly(factory->exchange, true, TRITONSERVER_ERROR_UNKNOWN, NULL);
  return NULL;
}

static void send_response(TRITONBACKEND_Response *response, bool is_final) {
  Exchange *exchange = response->exchange;
  Writer alone = {0};
  Execution *execution = collector_of(exchange, is_final);
  uint64_t bytes = write_response(writer_for(execution, &alone), response, is_final);
  if (!is_final) exchange_sent(exchange, bytes);
  written(execution, exchange->channel, &alone);
  response_free(response, true);
}

Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *response, uint32_t send_flags, Error *error) {
  REQUIRE_RESPONSE(response);
  Exchange *exchange = response->exchange;
  bool is_final = (send_flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  const char *model = exchange->instance->model->name;
  if (atomic_load(&exchange->has_ended)) {
    response_free(response, false);
    LOG_ERROR("the backend of model '%s' sent another response to a request after the final one; it is dropped", model);
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "the request already has its final response");
  }
  if (!is_final) exchange_wait_for_reader(exchange);
  if (error != NULL) {
    answer_plainly(exchange, is_final, error->code, TRITONSERVER_ErrorMessage(error));
    response_free(response, false);
    return NULL;
  }
  if (exchange->states != NULL) take_states(response);
  Text wrong = {0};
  TRITONBACKEND_Output *output = response->outputs;
  while (output != NULL && !is_wrong(output, &wrong)) output = output->next;
  if (wrong.size > 0) {
    answer_plainly(exchange, is_final, TRITONSERVER_ERROR_INTERNAL, wrong.bytes);
    text_free(&wrong);
    response_free(response, false);
  } else if (!is_final || exchange_end(exchange)) send_response(response, is_final);
  else response_free(response, false);
  return NULL;
}

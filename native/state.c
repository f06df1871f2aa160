// Implicit state of sequences. The server keeps the state and gives it to the next request of the sequence as inputs; here it is made by the
// backend as outputs, which travel with the response.
#include "host.h"

#define LARGEST_RANK 255

Pool state_pool = POOL(TRITONBACKEND_State, 0x53544530);

#define REQUIRE_STATE(state) if (!pool_lives(&state_pool, state)) return fail_stale(state, "state")

static bool has_name(char *const *names, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

bool state_is_hidden(const TRITONBACKEND_Model *model, const char *output) {
  return has_name(model->hidden, model->hidden_count, output);
}

void states_free(Exchange *exchange) {
  for (TRITONBACKEND_State *state = exchange->states, *next; state != NULL; state = next) {
    next = state->next;
    if (state->output != NULL) output_free(state->output, false);
    state->output = NULL;
    pool_give(&state_pool, state);
  }
  exchange->states = NULL;
}

Error *TRITONBACKEND_StateNew(TRITONBACKEND_State **state, TRITONBACKEND_Request *request, const char *name,
    TRITONSERVER_DataType datatype, const int64_t *shape, uint32_t dims_count) {
  *state = NULL;
  if (!pool_lives(&request_pool, request)) return fail_stale(request, "request");
  const TRITONBACKEND_Model *model = request->instance->model;
  if (model->state_count == 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "unable to add state '%s'. State configuration is missing for model '%s'.", name,
      model->name);
  if (!has_name(model->states, model->state_count, name))
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "state '%s' is not a valid state name.", name);
  if (dims_count > LARGEST_RANK) return fail(TRITONSERVER_ERROR_INVALID_ARG, "state '%s' has %u dimensions", name, dims_count);
  TRITONBACKEND_State *made = pool_take(&state_pool);
  made->output = output_new(request->exchange, name, datatype, shape, dims_count);
  made->is_updated = false;
  made->next = request->exchange->states;
  request->exchange->states = made;
  *state = made;
  return NULL;
}

Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer, uint64_t buffer_byte_size,
    TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id) {
  *buffer = NULL;
  REQUIRE_STATE(state);
  return TRITONBACKEND_OutputBuffer(state->output, buffer, buffer_byte_size, memory_type, memory_type_id);
}

Error *TRITONBACKEND_StateBufferAttributes(TRITONBACKEND_State *state, TRITONSERVER_BufferAttributes **attributes) {
  REQUIRE_STATE(state);
  return TRITONBACKEND_OutputBufferAttributes(state->output, attributes);
}

Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state) {
  REQUIRE_STATE(state);
  state->is_updated = true;
  return NULL;
}

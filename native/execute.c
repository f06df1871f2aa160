// One execution: a frame of requests becomes an array for the backend, and its answers one frame.
#include <stdlib.h>
#include "host.h"

// A backend that holds more requests than this never gives them back.
#define MOST_HELD 100000

static _Thread_local Execution *under_way;

Execution *current_execution(Channel *channel) {
  return under_way != NULL && under_way->channel == channel ? under_way : NULL;
}

static bool all_cancelled(TRITONBACKEND_Request **requests, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (!atomic_load(&requests[i]->exchange->is_cancelled)) return false;
  return count > 0;
}

// The backend returned an error, so the requests are the host's again. A backend that had answered or released some of them is wrong, but
// harms nobody.
static void answer_all(TRITONBACKEND_Request **requests, uint32_t count, const uint64_t *handles, Error *error) {
  for (uint32_t i = 0; i < count; i++) {
    bool is_ours = pool_lives(&request_pool, requests[i]) && requests[i]->exchange->handle == handles[i];
    if (!is_ours) continue;
    answer_plainly(requests[i]->exchange, true, error->code, TRITONSERVER_ErrorMessage(error));
    request_free(requests[i]);
  }
}

static void run(TRITONBACKEND_ModelInstance *instance, Execution *execution) {
  uint32_t count = execution->request_count;
  uint64_t *handles = allocate(count * sizeof *handles);
  for (uint32_t i = 0; i < count; i++) handles[i] = execution->requests[i]->exchange->handle;
  TRITONBACKEND_Model *model = instance->model;
  // TensorRT's policy: one execution at a time on a device. All instances of a host share its devices.
  bool is_exclusive = model->backend->policy == TRITONBACKEND_EXECUTION_DEVICE_BLOCKING;
  if (is_exclusive) pthread_mutex_lock(&model->execution);
  // The backend may write to its array. `answer_all` needs the requests as they were.
  TRITONBACKEND_Request **given = allocate(count * sizeof *given);
  memcpy(given, execution->requests, count * sizeof *given);
  Error *error = model->backend->calls.execute(instance, given, count);
  free(given);
  if (is_exclusive) pthread_mutex_unlock(&model->execution);
  if (error != NULL) {
    answer_all(execution->requests, count, handles, error);
    TRITONSERVER_ErrorDelete(error);
  }
  free(handles);
}

static void finish(Execution *execution, uint64_t batch) {
  uint64_t elapsed = now_ns() - execution->started_ns;
  memcpy(execution->writer.head.bytes + HEADER_BYTES, &elapsed, 8);
  writer_send(execution->channel, &execution->writer, FROM_EXECUTED, (uint16_t)execution->count, batch);
}

void execute_frame(TRITONBACKEND_ModelInstance *instance, Frame *frame) {
  // Kept for the next execution of this thread, with the memory that it has.
  static _Thread_local Execution execution;
  static _Thread_local uint32_t capacity;
  if (frame->count > capacity) {
    execution.requests = reallocate(execution.requests, frame->count * sizeof *execution.requests);
    capacity = frame->count;
  }
  long held = atomic_load(&request_pool.live);
  if (held > MOST_HELD) die("the backend of model '%s' holds %ld requests and does not release them", instance->model->name, held);
  execution.channel = instance->channel;
  execution.count = execution.request_count = 0;
  execution.started_ns = now_ns();
  size_t offset = HEADER_BYTES;
  for (uint32_t i = 0; i < frame->count; i++) {
    TRITONBACKEND_Request *request = request_read(instance, frame, &offset);
    if (request == NULL) die("the server sent an execute frame that cannot be read");
    execution.requests[execution.request_count++] = request;
  }
  if (all_cancelled(execution.requests, execution.request_count)) {
    for (uint32_t i = 0; i < execution.request_count; i++) {
      exchange_end(execution.requests[i]->exchange);
      request_free(execution.requests[i]);
    }
    channel_send(instance->channel, FROM_SKIPPED, 0, frame->id, NULL, 0);
    return;
  }
  static const char no_time[8];
  writer_begin(&execution.writer);
  text_add(&execution.writer.head, no_time, sizeof no_time);
  under_way = &execution;
  run(instance, &execution);
  under_way = NULL;
  finish(&execution, frame->id);
}

// The other engine: Triton's own server, in this process, runs the backend. It is for backends that need functions which the library of
// the host does not have. To the rest of the host this file is a backend: it forwards each request to Triton's server, and answers with what
// that server answers. It is part of a program of its own, which exports nothing: backends find Triton's library, not the host's.
#include <dlfcn.h>
#include <libgen.h>
#include <stdlib.h>
#include <unistd.h>
#include "host.h"
#define SERVER_ERROR ServerError
typedef struct ServerError ServerError;
#include "triton-server.h"

// How soon Triton's server is told of a cancelled request, and looked at while it unloads a model.
#define LOOK_EVERY_US 10000
#define MOST_REPOSITORIES 64

#define MEMBER(result, name, arguments) result (*name) arguments;
static struct { SERVER_FUNCTIONS(MEMBER) } triton;
static TRITONSERVER_Server *server;
static TRITONSERVER_ResponseAllocator *allocator;
// The folders that Triton's server knows models of.
static char *repositories[MOST_REPOSITORIES];
static size_t repository_count;

// One request, from its way to Triton's server until it is released and has its last answer.
typedef struct Forwarded {
  struct Forwarded *before, *after;
  TRITONBACKEND_Request *request;
  TRITONBACKEND_ResponseFactory *factory;
  TRITONSERVER_InferenceRequest *inner;
  // Requests of the same execution that are not released yet. The executing thread has it.
  uint32_t *unreleased;
  bool is_released, has_ended, is_cancelled;
} Forwarded;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER, opened = PTHREAD_COND_INITIALIZER;
static Forwarded *open_requests;

// An error of Triton's library as one of the host.
static Error *taken(ServerError *error) {
  if (error == NULL) return NULL;
  Error *ours = fail(triton.ErrorCode(error), "%s", triton.ErrorMessage(error));
  triton.ErrorDelete(error);
  return ours;
}

static void drop(ServerError *error) {
  if (error != NULL) triton.ErrorDelete(error);
}

static void drop_own(Error *error) {
  if (error != NULL) TRITONSERVER_ErrorDelete(error);
}

// ---- cancellation

// Requests are cancelled by frames, which may come while nobody reads the channel. `ResponseFactoryIsCancelled` reads it.
static void *relay_cancellations(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&lock);
    while (open_requests == NULL) pthread_cond_wait(&opened, &lock);
    for (Forwarded *each = open_requests; each != NULL; each = each->after) {
      bool is_cancelled = false;
      if (!each->is_cancelled) drop_own(TRITONBACKEND_ResponseFactoryIsCancelled(each->factory, &is_cancelled));
      if (!is_cancelled) continue;
      each->is_cancelled = true;
      drop(triton.InferenceRequestCancel(each->inner));
    }
    pthread_mutex_unlock(&lock);
    usleep(LOOK_EVERY_US);
  }
  return NULL;
}

// ---- answers

static ServerError *on_allocate(TRITONSERVER_ResponseAllocator *from, const char *name, size_t bytes, TRITONSERVER_MemoryType memory_type,
    int64_t memory_type_id, void *user, void **buffer, void **buffer_user, TRITONSERVER_MemoryType *actual_type, int64_t *actual_id) {
  (void)from, (void)memory_type, (void)memory_type_id;
  Forwarded *forwarded = user;
  TRITONBACKEND_Output *output = output_new(forwarded->factory->exchange, name, TRITONSERVER_TYPE_INVALID, NULL, 0);
  Error *error = TRITONBACKEND_OutputBuffer(output, buffer, bytes, actual_type, actual_id);
  TRITONBACKEND_Output **place = allocate(sizeof *place);
  *place = output;
  *buffer_user = place;
  if (error == NULL) return NULL;
  ServerError *theirs = triton.ErrorNew(error->code, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  output_free(output, false);
  free(place);
  *buffer_user = NULL;
  return theirs;
}

static ServerError *on_free(TRITONSERVER_ResponseAllocator *from, void *buffer, void *buffer_user, size_t bytes,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id) {
  (void)from, (void)buffer, (void)bytes, (void)memory_type, (void)memory_type_id;
  TRITONBACKEND_Output **place = buffer_user;
  // An output that was sent belongs to the server.
  if (place != NULL && *place != NULL) output_free(*place, false);
  free(place);
  return NULL;
}

static void take_output(TRITONBACKEND_Response *answer, TRITONSERVER_InferenceResponse *response, uint32_t index) {
  const char *name;
  TRITONSERVER_DataType type;
  const int64_t *shape;
  uint64_t rank;
  const void *base;
  size_t bytes;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_type_id;
  void *user = NULL;
  ServerError *error = triton.InferenceResponseOutput(response, index, &name, &type, &shape, &rank, &base, &bytes, &memory_type,
    &memory_type_id, &user);
  TRITONBACKEND_Output **place = user;
  if (error == NULL && place != NULL && *place != NULL) {
    TRITONBACKEND_Output *output = *place;
    *place = NULL;
    output->type = type;
    output->rank = (uint32_t)rank;
    output->shape = reallocate(output->shape, sizeof *shape * rank);
    memcpy(output->shape, shape, sizeof *shape * rank);
    response_append(answer, output);
  }
  drop(error);
}

static void take_parameter(TRITONBACKEND_Response *answer, TRITONSERVER_InferenceResponse *response, uint32_t index) {
  const char *name;
  TRITONSERVER_ParameterType type;
  const void *value;
  ServerError *error = triton.InferenceResponseParameter(response, index, &name, &type, &value);
  if (error != NULL) drop(error);
  else if (type == TRITONSERVER_PARAMETER_STRING) drop_own(TRITONBACKEND_ResponseSetStringParameter(answer, name, value));
  else if (type == TRITONSERVER_PARAMETER_INT) drop_own(TRITONBACKEND_ResponseSetIntParameter(answer, name, *(const int64_t *)value));
  else if (type == TRITONSERVER_PARAMETER_BOOL) drop_own(TRITONBACKEND_ResponseSetBoolParameter(answer, name, *(const bool *)value));
  else if (type == TRITONSERVER_PARAMETER_DOUBLE) drop_own(TRITONBACKEND_ResponseSetDoubleParameter(answer, name, *(const double *)value));
}

static void answer(Forwarded *forwarded, TRITONSERVER_InferenceResponse *response, uint32_t flags) {
  TRITONBACKEND_Response *ours;
  drop_own(TRITONBACKEND_ResponseNewFromFactory(&ours, forwarded->factory));
  if (ours == NULL) return;
  // It belongs to the response.
  ServerError *theirs = triton.InferenceResponseError(response);
  Error *error = theirs == NULL ? NULL : fail(triton.ErrorCode(theirs), "%s", triton.ErrorMessage(theirs));
  uint32_t outputs = 0, parameters = 0;
  if (error == NULL) {
    drop(triton.InferenceResponseOutputCount(response, &outputs));
    drop(triton.InferenceResponseParameterCount(response, &parameters));
  }
  for (uint32_t i = 0; i < outputs; i++) take_output(ours, response, i);
  for (uint32_t i = 0; i < parameters; i++) take_parameter(ours, response, i);
  drop_own(TRITONBACKEND_ResponseSend(ours, flags, error));
  drop_own(error);
}

// After the release and the last answer, whichever comes last.
static void forget(Forwarded *forwarded) {
  pthread_mutex_lock(&lock);
  if (forwarded->before == NULL) open_requests = forwarded->after;
  else forwarded->before->after = forwarded->after;
  if (forwarded->after != NULL) forwarded->after->before = forwarded->before;
  pthread_mutex_unlock(&lock);
  if (forwarded->inner != NULL) drop(triton.InferenceRequestDelete(forwarded->inner));
  drop_own(TRITONBACKEND_ResponseFactoryDelete(forwarded->factory));
  free(forwarded);
}

static void on_response(TRITONSERVER_InferenceResponse *response, uint32_t flags, void *user) {
  Forwarded *forwarded = user;
  bool is_final = (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
  if (response != NULL) {
    answer(forwarded, response, flags);
    drop(triton.InferenceResponseDelete(response));
  } else if (is_final) drop_own(TRITONBACKEND_ResponseFactorySendFlags(forwarded->factory, flags));
  if (!is_final) return;
  pthread_mutex_lock(&lock);
  forwarded->has_ended = true;
  bool is_over = forwarded->is_released;
  pthread_mutex_unlock(&lock);
  if (is_over) forget(forwarded);
}

static void on_released(TRITONSERVER_InferenceRequest *inner, uint32_t flags, void *user) {
  (void)inner, (void)flags;
  Forwarded *forwarded = user;
  drop_own(TRITONBACKEND_RequestRelease(forwarded->request, TRITONSERVER_REQUEST_RELEASE_ALL));
  pthread_mutex_lock(&lock);
  forwarded->is_released = true;
  bool is_over = forwarded->has_ended;
  if (--*forwarded->unreleased == 0) pthread_cond_broadcast(&released);
  pthread_mutex_unlock(&lock);
  if (is_over) forget(forwarded);
}

// ---- requests

static ServerError *add_parameters(TRITONSERVER_InferenceRequest *inner, const TRITONBACKEND_Request *request) {
  ServerError *error = NULL;
  for (uint32_t i = 0; error == NULL && i < request->parameter_count; i++) {
    const TRITONSERVER_Parameter *each = request->parameters[i];
    switch (each->type) {
      case TRITONSERVER_PARAMETER_STRING: error = triton.InferenceRequestSetStringParameter(inner, each->name, each->text); break;
      case TRITONSERVER_PARAMETER_INT: error = triton.InferenceRequestSetIntParameter(inner, each->name, each->integer); break;
      case TRITONSERVER_PARAMETER_BOOL: error = triton.InferenceRequestSetBoolParameter(inner, each->name, each->flag); break;
      case TRITONSERVER_PARAMETER_DOUBLE: error = triton.InferenceRequestSetDoubleParameter(inner, each->name, each->number); break;
      default: break;
    }
  }
  return error;
}

static ServerError *add_tensors(TRITONSERVER_InferenceRequest *inner, const TRITONBACKEND_Request *request) {
  ServerError *error = NULL;
  for (uint32_t i = 0; error == NULL && i < request->input_count; i++) {
    const Input *input = &request->inputs[i];
    error = triton.InferenceRequestAddInput(inner, input->name, input->type, input->shape, input->rank);
    if (error == NULL)
      error = triton.InferenceRequestAppendInputData(inner, input->name, input->base, input->size, TRITONSERVER_MEMORY_CPU, 0);
  }
  for (uint32_t i = 0; error == NULL && i < request->output_count; i++)
    error = triton.InferenceRequestAddRequestedOutput(inner, request->outputs[i]);
  return error;
}

static ServerError *copy_request(Forwarded *forwarded) {
  const TRITONBACKEND_Request *request = forwarded->request;
  const TRITONBACKEND_Model *model = request->instance->model;
  ServerError *error = triton.InferenceRequestNew(&forwarded->inner, server, model->name, (int64_t)model->version);
  if (error != NULL) return error;
  TRITONSERVER_InferenceRequest *inner = forwarded->inner;
  bool is_text = (request->flags & REQUEST_TEXT_CORRELATION) != 0;
  error = triton.InferenceRequestSetId(inner, request->id);
  if (error == NULL)
    error = is_text ? triton.InferenceRequestSetCorrelationIdString(inner, request->correlation_text)
      : triton.InferenceRequestSetCorrelationId(inner, request->correlation);
  if (error == NULL) error = add_parameters(inner, request);
  if (error == NULL) error = add_tensors(inner, request);
  if (error == NULL) error = triton.InferenceRequestSetReleaseCallback(inner, on_released, forwarded);
  if (error == NULL) error = triton.InferenceRequestSetResponseCallback(inner, allocator, forwarded, on_response, forwarded);
  return error;
}

static Error *forward(TRITONBACKEND_Request *request, uint32_t *unreleased) {
  Forwarded *forwarded = allocate(sizeof *forwarded);
  forwarded->request = request;
  forwarded->unreleased = unreleased;
  Error *failure = TRITONBACKEND_ResponseFactoryNew(&forwarded->factory, request);
  if (failure != NULL) {
    free(forwarded);
    return failure;
  }
  ServerError *error = copy_request(forwarded);
  pthread_mutex_lock(&lock);
  ++*unreleased;
  forwarded->after = open_requests;
  if (open_requests != NULL) open_requests->before = forwarded;
  open_requests = forwarded;
  pthread_cond_signal(&opened);
  pthread_mutex_unlock(&lock);
  // From here on the callbacks may have freed it.
  if (error == NULL) error = triton.ServerInferAsync(server, forwarded->inner, NULL);
  if (error == NULL) return NULL;
  pthread_mutex_lock(&lock);
  --*unreleased;
  pthread_mutex_unlock(&lock);
  failure = taken(error);
  forget(forwarded);
  return failure;
}

static void refuse(TRITONBACKEND_Request *request, Error *error) {
  TRITONBACKEND_Response *response;
  drop_own(TRITONBACKEND_ResponseNew(&response, request));
  if (response != NULL) drop_own(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  TRITONSERVER_ErrorDelete(error);
  drop_own(TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL));
}

// Ends when the backend has released all requests, as an execution does that calls the backend itself.
static Error *execute(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request **requests, uint32_t count) {
  (void)instance;
  uint32_t unreleased = 0;
  for (uint32_t i = 0; i < count; i++) {
    Error *error = forward(requests[i], &unreleased);
    if (error != NULL) refuse(requests[i], error);
  }
  pthread_mutex_lock(&lock);
  while (unreleased > 0) pthread_cond_wait(&released, &lock);
  pthread_mutex_unlock(&lock);
  return NULL;
}

// ---- models

static ServerError *set_options(TRITONSERVER_ServerOptions *options, const TRITONBACKEND_Backend *backend, const Json *settings,
    const char *repository) {
  ServerError *error = triton.ServerOptionsSetModelRepositoryPath(options, repository);
  if (error == NULL) error = triton.ServerOptionsSetModelControlMode(options, MODEL_CONTROL_EXPLICIT);
  if (error == NULL) error = triton.ServerOptionsSetBackendDirectory(options, json_text(settings, "backendDirectory", ""));
  if (error == NULL) error = triton.ServerOptionsSetStrictModelConfig(options, false);
  if (error == NULL) error = triton.ServerOptionsSetLogVerbose(options, atomic_load(&logs_verbose) ? 1 : 0);
  if (error == NULL) error = triton.ServerOptionsSetLogInfo(options, true);
  if (error == NULL) error = triton.ServerOptionsSetMetrics(options, false);
  if (error == NULL) error = triton.ServerOptionsSetGpuMetrics(options, false);
  if (error == NULL) error = triton.ServerOptionsSetCpuMetrics(options, false);
  if (error == NULL) error = triton.ServerOptionsSetExitOnError(options, false);
  const Json *flags = json_member(settings, "cmdline");
  for (const Json *each = flags == NULL ? NULL : flags->first; error == NULL && each != NULL; each = each->next)
    if (each->kind == JSON_STRING) error = triton.ServerOptionsSetBackendConfig(options, backend->name, each->name, each->text);
  return error;
}

static Error *start_server(const TRITONBACKEND_Backend *backend, const Json *settings, const char *repository) {
  TRITONSERVER_ServerOptions *options;
  ServerError *error = triton.ServerOptionsNew(&options);
  if (error != NULL) return taken(error);
  error = set_options(options, backend, settings, repository);
  if (error == NULL) error = triton.ServerNew(&server, options);
  drop(triton.ServerOptionsDelete(options));
  if (error == NULL) error = triton.ResponseAllocatorNew(&allocator, on_allocate, on_free, NULL);
  pthread_t thread;
  if (error == NULL && pthread_create(&thread, NULL, relay_cancellations, NULL) != 0) die("no thread could be started");
  return taken(error);
}

// Triton's server finds a model by its name in the folders that it knows. A model whose folder has another name is mapped.
static Error *know_repository(const char *repository, const char *folder, const char *name) {
  for (size_t i = 0; i < repository_count; i++)
    if (strcmp(repositories[i], repository) == 0) return NULL;
  if (repository_count == MOST_REPOSITORIES) return fail(TRITONSERVER_ERROR_UNAVAILABLE, "one host serves at most %d repositories", MOST_REPOSITORIES);
  TRITONSERVER_Parameter *mapping = strcmp(folder, name) == 0 ? NULL
    : triton.ParameterNew(folder, TRITONSERVER_PARAMETER_STRING, name);
  ServerError *error = triton.ServerRegisterModelRepository(server, repository, (const TRITONSERVER_Parameter **)&mapping,
    mapping == NULL ? 0 : 1);
  if (mapping != NULL) triton.ParameterDelete(mapping);
  if (error == NULL) repositories[repository_count++] = copy_text(repository, strlen(repository));
  return taken(error);
}

static ServerError *load_model(const TRITONBACKEND_Model *model, const Json *settings) {
  ServerError *error = NULL;
  const Json *beside = json_member(settings, "models");
  for (const Json *each = beside == NULL ? NULL : beside->first; error == NULL && each != NULL; each = each->next)
    if (each->kind == JSON_STRING) error = triton.ServerLoadModel(server, each->text);
  if (error != NULL) return error;
  const TRITONSERVER_Parameter *config = triton.ParameterNew("config", TRITONSERVER_PARAMETER_STRING, model->config->bytes);
  error = triton.ServerLoadModelWithParameters(server, model->name, &config, 1);
  triton.ParameterDelete((TRITONSERVER_Parameter *)config);
  return error;
}

static ServerError *give_config(TRITONBACKEND_Model *model) {
  TRITONSERVER_Message *config, *ours;
  const char *text;
  size_t bytes;
  ServerError *error = triton.ServerModelConfig(server, model->name, (int64_t)model->version, 1, &config);
  if (error != NULL) return error;
  error = triton.MessageSerializeToJson(config, &text, &bytes);
  if (error == NULL) {
    ours = message_new(text, bytes);
    drop_own(TRITONBACKEND_ModelSetConfig(model, 1, ours));
    message_free(ours);
  }
  drop(triton.MessageDelete(config));
  return error;
}

static Error *model_initialize(TRITONBACKEND_Model *model) {
  Json *settings = json_parse(model->backend->config->bytes, model->backend->config->size);
  char *path = copy_text(model->directory, strlen(model->directory)), *again = copy_text(path, strlen(path));
  const char *repository = dirname(path), *folder = basename(again);
  // The folder of the model is no repository. Triton's server needs one to start, and finds no model in it.
  Error *error = server != NULL ? NULL : start_server(model->backend, settings, model->directory);
  if (error == NULL) error = know_repository(repository, folder, model->name);
  if (error == NULL) error = taken(load_model(model, settings));
  if (error == NULL && model->may_complete) error = taken(give_config(model));
  free(path);
  free(again);
  json_free(settings);
  return error;
}

static bool is_unloading(const char *name) {
  TRITONSERVER_Message *index;
  const char *text;
  size_t bytes;
  bool is_found = false;
  ServerError *error = triton.ServerModelIndex(server, 0, &index);
  if (error != NULL) return drop(error), false;
  error = triton.MessageSerializeToJson(index, &text, &bytes);
  Json *models = error == NULL ? json_parse(text, bytes) : NULL;
  for (const Json *each = models == NULL ? NULL : models->first; each != NULL; each = each->next) {
    const char *state = json_text(each, "state", "");
    if (strcmp(json_text(each, "name", ""), name) == 0 && strcmp(state, "UNAVAILABLE") != 0 && *state != 0) is_found = true;
  }
  drop(error);
  json_free(models);
  drop(triton.MessageDelete(index));
  return is_found;
}

// Waits for the finalization by the backend. The server ends a host for which that takes too long.
static Error *model_finalize(TRITONBACKEND_Model *model) {
  ServerError *error = triton.ServerUnloadModel(server, model->name);
  while (error == NULL && is_unloading(model->name)) usleep(LOOK_EVERY_US);
  return taken(error);
}

Error *backend_load(TRITONBACKEND_Backend *backend) {
  Json *settings = json_parse(backend->config->bytes, backend->config->size);
  const char *library = json_text(settings, "serverLibrary", "");
  void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  Error *error = handle != NULL ? NULL
    : fail(TRITONSERVER_ERROR_NOT_FOUND, "Triton's server library '%s' cannot be loaded: %s", library, dlerror());
#define FIND(result, name, arguments) {"TRITONSERVER_" #name, &triton.name},
  const struct { const char *name; void *place; } wanted[] = {SERVER_FUNCTIONS(FIND)};
  for (size_t i = 0; error == NULL && i < sizeof wanted / sizeof *wanted; i++) {
    void *function = dlsym(handle, wanted[i].name);
    if (function == NULL) error = fail(TRITONSERVER_ERROR_UNSUPPORTED, "'%s' has no function %s", library, wanted[i].name);
    memcpy(wanted[i].place, &function, sizeof function);
  }
  json_free(settings);
  if (error != NULL) return error;
  backend->handle = handle;
  backend->calls = (EntryPoints){.model_initialize = model_initialize, .model_finalize = model_finalize, .execute = execute};
  return NULL;
}

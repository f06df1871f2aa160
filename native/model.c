// Backends, models and instances: loaded once per host, found by their keys, and finalized in the reverse order of Triton's life cycle.
#include <stdlib.h>
#include <unistd.h>
#include "host.h"

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static TRITONBACKEND_Backend *backends;
static TRITONBACKEND_Model *models;

static char *copy_member(const Json *object, const char *name) {
  const char *text = json_text(object, name, "");
  return copy_text(text, strlen(text));
}

static char **copy_names(const Json *list, size_t *count) {
  *count = json_count(list);
  char **names = allocate(sizeof *names * *count);
  size_t i = 0;
  for (const Json *each = *count == 0 ? NULL : list->first; each != NULL; each = each->next) {
    const char *text = each->kind == JSON_STRING ? each->text : "";
    names[i++] = copy_text(text, strlen(text));
  }
  return names;
}

static TRITONSERVER_Message *message_of(const Json *object, const char *name) {
  const char *text = json_text(object, name, "{}");
  return message_new(text, strlen(text));
}

// ---- backend

static Error *open_library(TRITONBACKEND_Backend *backend) {
  Error *error = backend_load(backend);
  if (error == NULL && backend->calls.initialize != NULL) error = backend->calls.initialize(backend);
  if (error == NULL && backend->calls.attributes != NULL)
    error = backend->calls.attributes(backend, &backend->attributes);
  return error;
}

static void backend_free(TRITONBACKEND_Backend *backend) {
  message_free(backend->config);
  text_free(&backend->attributes.groups);
  free(backend->name);
  free(backend->directory);
  free(backend->library);
  free(backend);
}

static Error *backend_open(const Json *settings, TRITONBACKEND_Backend **found) {
  const char *library = json_text(settings, "library", "");
  for (*found = backends; *found != NULL; *found = (*found)->next)
    if (strcmp((*found)->library, library) == 0) return NULL;
  TRITONBACKEND_Backend *backend = allocate(sizeof *backend);
  backend->name = copy_member(settings, "name");
  backend->directory = copy_member(settings, "directory");
  backend->library = copy_member(settings, "library");
  backend->config = message_of(settings, "config");
  Error *error = open_library(backend);
  if (error != NULL) {
    backend_free(backend);
    return error;
  }
  backend->next = backends;
  backends = backend;
  *found = backend;
  return NULL;
}

static void log_failure(const char *what, Error *error) {
  if (error == NULL) return;
  LOG_ERROR("%s: %s", what, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
}

// The library stays loaded: a backend's threads may still run in it, and the process ends soon.
static void backend_close(TRITONBACKEND_Backend *backend) {
  if (backend->models > 0) return;
  if (backend->calls.finalize != NULL) log_failure("failed to finalize the backend", backend->calls.finalize(backend));
  TRITONBACKEND_Backend **at = &backends;
  while (*at != backend) at = &(*at)->next;
  *at = backend->next;
  backend_free(backend);
}

// ---- model

// Names and memory of the model itself stay: a backend that never released a request may still do so.
static void model_free(TRITONBACKEND_Model *model) {
  message_free(model->config);
  model->config = NULL;
  free(model->key);
  free(model->directory);
  model->key = model->directory = NULL;
}

static TRITONBACKEND_Model *model_new(TRITONBACKEND_Backend *backend, const Json *settings) {
  const Json *facts = json_member(settings, "model");
  TRITONBACKEND_Model *model = allocate(sizeof *model);
  model->backend = backend;
  model->key = copy_member(facts, "key");
  model->name = copy_member(facts, "name");
  model->directory = copy_member(facts, "directory");
  model->version = strtoull(json_text(facts, "version", "1"), NULL, 10);
  model->config = message_of(facts, "config");
  model->is_decoupled = json_flag(facts, "decoupled");
  model->is_iterative = json_flag(facts, "iterative");
  model->inputs = copy_names(json_member(facts, "inputs"), &model->input_count);
  model->outputs = copy_names(json_member(facts, "outputs"), &model->output_count);
  pthread_mutex_init(&model->execution, NULL);
  pthread_mutex_init(&model->loading, NULL);
  model->states = copy_names(json_member(facts, "states"), &model->state_count);
  model->hidden = copy_names(json_member(facts, "hiddenStates"), &model->hidden_count);
  return model;
}

static Error *initialize(TRITONBACKEND_Model *model) {
  EntryPoints *calls = &model->backend->calls;
  return calls->model_initialize == NULL ? NULL : calls->model_initialize(model);
}

static void finalize(TRITONBACKEND_Model *model) {
  EntryPoints *calls = &model->backend->calls;
  if (calls->model_finalize != NULL) log_failure("failed to finalize the model", calls->model_finalize(model));
}

static Error *model_open(TRITONBACKEND_Backend *backend, const Json *settings, TRITONBACKEND_Model **found) {
  const char *key = json_text(json_member(settings, "model"), "key", "");
  for (*found = models; *found != NULL; *found = (*found)->next)
    if (strcmp((*found)->key, key) == 0) return NULL;
  TRITONBACKEND_Model *model = model_new(backend, settings);
  Error *error = initialize(model);
  if (error != NULL) {
    model_free(model);
    return error;
  }
  backend->models++;
  model->next = models;
  models = model;
  *found = model;
  return NULL;
}

static void model_close(TRITONBACKEND_Model *model) {
  if (model->instances > 0) return;
  finalize(model);
  TRITONBACKEND_Model **at = &models;
  while (*at != model) at = &(*at)->next;
  *at = model->next;
  TRITONBACKEND_Backend *backend = model->backend;
  backend->models--;
  model_free(model);
  backend_close(backend);
}

Error *model_complete(const Json *settings, Text *completed) {
  pthread_mutex_lock(&registry);
  TRITONBACKEND_Backend *backend;
  Error *error = backend_open(json_member(settings, "backend"), &backend);
  if (error == NULL) {
    TRITONBACKEND_Model *model = model_new(backend, settings);
    model->may_complete = true;
    error = initialize(model);
    text_print(completed, "{\"groups\":[%s],\"config\":", backend->attributes.groups.size == 0 ? "" : backend->attributes.groups.bytes);
    if (error == NULL && model->was_completed) text_add(completed, model->config->bytes, model->config->size);
    else text_add(completed, "null", 4);
    text_add(completed, "}", 1);
    if (error == NULL) finalize(model);
    model_free(model);
  }
  pthread_mutex_unlock(&registry);
  return error;
}

// ---- instance

// As for a model, its own memory stays.
static void instance_free(TRITONBACKEND_ModelInstance *instance) {
  message_free(instance->policy);
  instance->policy = NULL;
}

static TRITONBACKEND_ModelInstance *instance_new(TRITONBACKEND_Model *model, Channel *channel, const Json *facts) {
  TRITONBACKEND_ModelInstance *instance = allocate(sizeof *instance);
  instance->model = model;
  instance->channel = channel;
  instance->name = copy_member(facts, "name");
  instance->kind = (TRITONSERVER_InstanceGroupKind)json_integer(facts, "kind", TRITONSERVER_INSTANCEGROUPKIND_CPU);
  instance->device = (int32_t)json_integer(facts, "deviceId", 0);
  instance->is_passive = json_flag(facts, "isPassive");
  instance->policy = message_of(facts, "hostPolicy");
  instance->profiles = copy_names(json_member(facts, "profiles"), &instance->profile_count);
  const Json *devices = json_member(facts, "secondaryDevices");
  instance->secondary_count = json_count(devices);
  instance->secondary = allocate(sizeof *instance->secondary * instance->secondary_count);
  size_t i = 0;
  for (const Json *each = instance->secondary_count == 0 ? NULL : devices->first; each != NULL; each = each->next, i++) {
    instance->secondary[i].kind = copy_member(each, "kind");
    instance->secondary[i].id = json_integer(each, "id", 0);
  }
  return instance;
}

Error *instance_open(Channel *channel, const Json *settings) {
  TRITONBACKEND_Backend *backend;
  TRITONBACKEND_Model *model = NULL;
  pthread_mutex_lock(&registry);
  Error *error = backend_open(json_member(settings, "backend"), &backend);
  if (error == NULL) error = model_open(backend, settings, &model);
  if (error == NULL) model->instances++;
  pthread_mutex_unlock(&registry);
  if (error != NULL) return error;
  TRITONBACKEND_ModelInstance *instance = instance_new(model, channel, json_member(settings, "instance"));
  channel->instance = instance;
  bool is_serial = !backend->attributes.loads_in_parallel;
  if (is_serial) pthread_mutex_lock(&model->loading);
  if (backend->calls.instance_initialize != NULL) error = backend->calls.instance_initialize(instance);
  if (is_serial) pthread_mutex_unlock(&model->loading);
  if (error == NULL) return NULL;
  channel->instance = NULL;
  instance_free(instance);
  pthread_mutex_lock(&registry);
  model->instances--;
  model_close(model);
  pthread_mutex_unlock(&registry);
  return error;
}

void instance_close(TRITONBACKEND_ModelInstance *instance) {
  TRITONBACKEND_Model *model = instance->model;
  EntryPoints *calls = &model->backend->calls;
  if (calls->instance_finalize != NULL) log_failure("failed to finalize the instance", calls->instance_finalize(instance));
  pthread_mutex_lock(&registry);
  model->instances--;
  model_close(model);
  pthread_mutex_unlock(&registry);
  instance_free(instance);
}

// ---- what a backend asks of its backend, model and instance

#define GIVE(type, function, result_type, value) \
  Error *function(type *object, result_type *result) { \
    *result = value; \
    return NULL; \
  }
#define TAKE(type, function) \
  Error *function(type *object, void *state) { \
    object->state = state; \
    return NULL; \
  }

GIVE(TRITONBACKEND_Backend, TRITONBACKEND_BackendName, const char *, object->name)
GIVE(TRITONBACKEND_Backend, TRITONBACKEND_BackendConfig, TRITONSERVER_Message *, object->config)
GIVE(TRITONBACKEND_Backend, TRITONBACKEND_BackendExecutionPolicy, TRITONBACKEND_ExecutionPolicy, object->policy)
GIVE(TRITONBACKEND_Backend, TRITONBACKEND_BackendMemoryManager, TRITONBACKEND_MemoryManager *, &object->memory)
GIVE(TRITONBACKEND_Backend, TRITONBACKEND_BackendState, void *, object->state)
TAKE(TRITONBACKEND_Backend, TRITONBACKEND_BackendSetState)
GIVE(TRITONBACKEND_Model, TRITONBACKEND_ModelName, const char *, object->name)
GIVE(TRITONBACKEND_Model, TRITONBACKEND_ModelVersion, uint64_t, object->version)
GIVE(TRITONBACKEND_Model, TRITONBACKEND_ModelAutoCompleteConfig, bool, object->may_complete)
GIVE(TRITONBACKEND_Model, TRITONBACKEND_ModelBackend, TRITONBACKEND_Backend *, object->backend)
GIVE(TRITONBACKEND_Model, TRITONBACKEND_ModelState, void *, object->state)
TAKE(TRITONBACKEND_Model, TRITONBACKEND_ModelSetState)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceName, const char *, object->name)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceKind, TRITONSERVER_InstanceGroupKind, object->kind)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceDeviceId, int32_t, object->device)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceHostPolicy, TRITONSERVER_Message *, object->policy)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceIsPassive, bool, object->is_passive)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceModel, TRITONBACKEND_Model *, object->model)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceState, void *, object->state)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceProfileCount, uint32_t, (uint32_t)object->profile_count)
GIVE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceSecondaryDeviceCount, uint32_t,
  (uint32_t)object->secondary_count)
TAKE(TRITONBACKEND_ModelInstance, TRITONBACKEND_ModelInstanceSetState)

Error *TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend *backend, TRITONBACKEND_ExecutionPolicy policy) {
  backend->policy = policy;
  return NULL;
}

Error *TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend *backend, TRITONBACKEND_ArtifactType *artifact_type,
    const char **location) {
  *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = backend->directory;
  return NULL;
}

Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *model, TRITONBACKEND_ArtifactType *artifact_type,
    const char **location) {
  *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->directory;
  return NULL;
}

static Error *unknown_version(uint32_t version) {
  return fail(TRITONSERVER_ERROR_UNSUPPORTED, "model configuration version %u not supported, supported versions are: 1", version);
}

// The backend deletes the message.
Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *model, uint32_t config_version, TRITONSERVER_Message **model_config) {
  *model_config = NULL;
  if (config_version != 1) return unknown_version(config_version);
  *model_config = message_new(model->config->bytes, model->config->size);
  return NULL;
}

Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *model, uint32_t config_version, TRITONSERVER_Message *model_config) {
  if (config_version != 1) return unknown_version(config_version);
  if (!pool_lives(&message_pool, model_config)) return fail_stale(model_config, "message");
  TRITONSERVER_Message *before = model->config;
  model->config = message_new(model_config->bytes, model_config->size);
  message_free(before);
  model->was_completed = true;
  return NULL;
}

// A backend that calls the server itself needs functions that this library does not have. It runs beside Triton's (triton-server.c).
Error *TRITONBACKEND_ModelServer(TRITONBACKEND_Model *model, TRITONSERVER_Server **server) {
  *server = (TRITONSERVER_Server *)model;
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceProfileName(TRITONBACKEND_ModelInstance *instance, uint32_t index,
    const char **profile_name) {
  *profile_name = NULL;
  if (index >= instance->profile_count)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index %u: instance has %zu profiles", index,
      instance->profile_count);
  *profile_name = instance->profiles[index];
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(TRITONBACKEND_ModelInstance *instance, uint32_t index,
    const char **kind, int64_t *id) {
  if (index >= instance->secondary_count)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "out of bounds index %u: instance has %zu secondary devices", index,
      instance->secondary_count);
  *kind = instance->secondary[index].kind;
  *id = instance->secondary[index].id;
  return NULL;
}

Error *TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(TRITONBACKEND_BackendAttribute *attributes,
    bool enabled) {
  attributes->loads_in_parallel = enabled;
  return NULL;
}

// As JSON for the server, which places the instances of models that name no group.
Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(TRITONBACKEND_BackendAttribute *attributes,
    TRITONSERVER_InstanceGroupKind kind, uint64_t count, const uint64_t *device_ids, uint64_t id_count) {
  Text *groups = &attributes->groups;
  text_print(groups, "%s{\"kind\":\"KIND_%s\",\"count\":%llu,\"gpus\":[", groups->size == 0 ? "" : ",",
    TRITONSERVER_InstanceGroupKindString(kind), (unsigned long long)count);
  for (uint64_t i = 0; i < id_count; i++)
    text_print(groups, "%s%llu", i == 0 ? "" : ",", (unsigned long long)device_ids[i]);
  text_add(groups, "]}", 2);
  return NULL;
}

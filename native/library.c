// The library of a backend, and what it exports. The other engine, which lets Triton's own server run the backend, is triton-server.c.
#include <dlfcn.h>
#include "host.h"

static void find_entry_points(TRITONBACKEND_Backend *backend) {
  const struct { const char *name; void *place; } wanted[] = {
    {"TRITONBACKEND_Initialize", &backend->calls.initialize},
    {"TRITONBACKEND_Finalize", &backend->calls.finalize},
    {"TRITONBACKEND_GetBackendAttribute", &backend->calls.attributes},
    {"TRITONBACKEND_ModelInitialize", &backend->calls.model_initialize},
    {"TRITONBACKEND_ModelFinalize", &backend->calls.model_finalize},
    {"TRITONBACKEND_ModelInstanceInitialize", &backend->calls.instance_initialize},
    {"TRITONBACKEND_ModelInstanceFinalize", &backend->calls.instance_finalize},
    {"TRITONBACKEND_ModelInstanceExecute", &backend->calls.execute},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *function = dlsym(backend->handle, wanted[i].name);
    memcpy(wanted[i].place, &function, sizeof function);
  }
}

Error *backend_load(TRITONBACKEND_Backend *backend) {
  backend->handle = dlopen(backend->library, RTLD_NOW | RTLD_LOCAL);
  if (backend->handle == NULL) return fail(TRITONSERVER_ERROR_NOT_FOUND, "unable to load shared library: %s", dlerror());
  find_entry_points(backend);
  if (backend->calls.execute == NULL)
    return fail(TRITONSERVER_ERROR_NOT_FOUND, "unable to find required entrypoint 'TRITONBACKEND_ModelInstanceExecute' in "
      "shared library '%s'", backend->library);
  return NULL;
}

// The memory manager of backends, and what they report about their memory.
#include <stdlib.h>
#include "host.h"

// A backend that gets UNAVAILABLE for pinned memory or memory of a GPU uses plain memory.
Error *TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager *manager, void **buffer,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, uint64_t byte_size) {
  (void)manager;
  *buffer = NULL;
  if (memory_type != TRITONSERVER_MEMORY_CPU) return gpu_memory_take(memory_type, memory_type_id, byte_size, buffer);
  *buffer = malloc(byte_size > 0 ? byte_size : 1);
  return *buffer == NULL ? fail(TRITONSERVER_ERROR_UNAVAILABLE, "no memory for %llu bytes", (unsigned long long)byte_size) : NULL;
}

Error *TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager *manager, void *buffer,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id) {
  (void)manager;
  if (memory_type != TRITONSERVER_MEMORY_CPU) return gpu_memory_give(memory_type, memory_type_id, buffer);
  free(buffer);
  return NULL;
}

// The server measures the memory of the whole host, so what a backend reports is not needed.
Error *TRITONBACKEND_ModelReportMemoryUsage(TRITONBACKEND_Model *model, TRITONSERVER_BufferAttributes **usage,
    uint32_t usage_size) {
  (void)model;
  (void)usage;
  (void)usage_size;
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(TRITONBACKEND_ModelInstance *instance,
    TRITONSERVER_BufferAttributes **usage, uint32_t usage_size) {
  (void)instance;
  (void)usage;
  (void)usage_size;
  return NULL;
}

// Pinned memory and memory of GPUs for backends, from the driver of NVIDIA where there is one. Blocks that a backend gives back are kept for
// the next that asks: taking memory from the driver stops the whole GPU.
#include <dlfcn.h>
#include <stdlib.h>
#include "host.h"

#define MOST_DEVICES 64
#define SMALLEST_BLOCK 4096
#define PORTABLE 1

typedef struct Block {
  uint64_t address, bytes;
  TRITONSERVER_MemoryType type;
  int64_t device;
  bool is_free;
  struct Block *next;
} Block;

// The driver's functions; each returns 0 when it succeeds.
static struct {
  int (*init)(unsigned flags);
  int (*device)(int *device, int ordinal);
  int (*retain)(void **context, int device);
  int (*push)(void *context);
  int (*pop)(void **context);
  int (*take)(uint64_t *address, size_t bytes);
  int (*give)(uint64_t address);
  int (*take_pinned)(void **address, size_t bytes, unsigned flags);
  int (*give_pinned)(void *address);
} cuda;
static bool has_driver;
static void *contexts[MOST_DEVICES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Block *blocks;
static uint64_t pinned_limit, device_limit;

void gpu_memory_limit(uint64_t pinned_bytes, uint64_t device_bytes) {
  pthread_mutex_lock(&lock);
  pinned_limit = pinned_bytes;
  device_limit = device_bytes;
  pthread_mutex_unlock(&lock);
}

static void open_driver(void) {
  void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) return;
  const struct { const char *name; void *place; } wanted[] = {
    {"cuInit", &cuda.init}, {"cuDeviceGet", &cuda.device}, {"cuDevicePrimaryCtxRetain", &cuda.retain},
    {"cuCtxPushCurrent_v2", &cuda.push}, {"cuCtxPopCurrent_v2", &cuda.pop}, {"cuMemAlloc_v2", &cuda.take},
    {"cuMemFree_v2", &cuda.give}, {"cuMemHostAlloc", &cuda.take_pinned}, {"cuMemFreeHost", &cuda.give_pinned},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    void *function = dlsym(handle, wanted[i].name);
    if (function == NULL) return;
    memcpy(wanted[i].place, &function, sizeof function);
  }
  has_driver = cuda.init(0) == 0;
}

// The context that the CUDA runtime of a backend uses, too. With the lock held; false where there is no such GPU.
static bool enter(int64_t device) {
  if (device < 0 || device >= MOST_DEVICES) return false;
  int number;
  if (contexts[device] == NULL && (cuda.device(&number, (int)device) != 0 || cuda.retain(&contexts[device], number) != 0)) return false;
  return cuda.push(contexts[device]) == 0;
}

static void leave(void) {
  void *context;
  cuda.pop(&context);
}

// Pinned memory is of the whole host, whatever device a backend names.
static int64_t device_of(TRITONSERVER_MemoryType type, int64_t device) { return type == TRITONSERVER_MEMORY_GPU ? device : 0; }

static uint64_t bytes_held(TRITONSERVER_MemoryType type, int64_t device) {
  uint64_t bytes = 0;
  for (Block *each = blocks; each != NULL; each = each->next)
    if (each->type == type && each->device == device) bytes += each->bytes;
  return bytes;
}

// Gives blocks that nobody uses back to the driver, until `needed` more bytes are below the limit.
static void make_room(TRITONSERVER_MemoryType type, int64_t device, uint64_t needed, uint64_t limit) {
  for (Block **at = &blocks; *at != NULL && bytes_held(type, device) + needed > limit;) {
    Block *each = *at;
    if (!each->is_free || each->type != type || each->device != device) {
      at = &each->next;
      continue;
    }
    if (type == TRITONSERVER_MEMORY_GPU) cuda.give(each->address);
    else cuda.give_pinned((void *)(uintptr_t)each->address);
    *at = each->next;
    free(each);
  }
}

static bool take_from_driver(TRITONSERVER_MemoryType type, uint64_t bytes, uint64_t *address) {
  if (type == TRITONSERVER_MEMORY_GPU) return cuda.take(address, bytes) == 0;
  void *memory = NULL;
  if (cuda.take_pinned(&memory, bytes, PORTABLE) != 0) return false;
  *address = (uint64_t)(uintptr_t)memory;
  return true;
}

// With the lock held. NULL where there is no room.
static Block *find_block(TRITONSERVER_MemoryType type, int64_t device, uint64_t bytes) {
  uint64_t limit = type == TRITONSERVER_MEMORY_GPU ? device_limit : pinned_limit;
  if (bytes > limit) return NULL;
  uint64_t needed = align_to(bytes > 0 ? bytes : 1, SMALLEST_BLOCK);
  for (Block *each = blocks; each != NULL; each = each->next)
    if (each->is_free && each->type == type && each->device == device && each->bytes >= needed && each->bytes <= 2 * needed) return each;
  if (needed > limit || !enter(device)) return NULL;
  make_room(type, device, needed, limit);
  Block *made = NULL;
  uint64_t address;
  if (bytes_held(type, device) + needed <= limit && take_from_driver(type, needed, &address)) {
    made = allocate(sizeof *made);
    *made = (Block){address, needed, type, device, true, blocks};
    blocks = made;
  }
  leave();
  return made;
}

Error *gpu_memory_take(TRITONSERVER_MemoryType type, int64_t device, uint64_t bytes, void **buffer) {
  pthread_once(&once, open_driver);
  const char *name = TRITONSERVER_MemoryTypeString(type);
  if (!has_driver)
    return fail(TRITONSERVER_ERROR_UNAVAILABLE, "%s memory is not available: this machine has no driver of NVIDIA", name);
  int64_t place = device_of(type, device);
  pthread_mutex_lock(&lock);
  Block *block = find_block(type, place, bytes);
  if (block != NULL) block->is_free = false;
  uint64_t limit = type == TRITONSERVER_MEMORY_GPU ? device_limit : pinned_limit, held = bytes_held(type, place);
  pthread_mutex_unlock(&lock);
  if (block == NULL)
    return fail(TRITONSERVER_ERROR_UNAVAILABLE, "no %s memory of device %lld for %llu bytes: the host has %llu, and may have %llu", name,
      (long long)place, (unsigned long long)bytes, (unsigned long long)held, (unsigned long long)limit);
  *buffer = (void *)(uintptr_t)block->address;
  return NULL;
}

Error *gpu_memory_give(TRITONSERVER_MemoryType type, int64_t device, void *buffer) {
  int64_t place = device_of(type, device);
  pthread_mutex_lock(&lock);
  Block *block = blocks;
  while (block != NULL && (block->address != (uint64_t)(uintptr_t)buffer || block->type != type || block->device != place)) block = block->next;
  bool is_known = block != NULL && !block->is_free;
  if (is_known) block->is_free = true;
  pthread_mutex_unlock(&lock);
  if (is_known) return NULL;
  return fail(TRITONSERVER_ERROR_INVALID_ARG, "%s memory that was not given out, or is back already", TRITONSERVER_MemoryTypeString(type));
}

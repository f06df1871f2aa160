/* The functions of the CUDA driver that the server calls, with memory of the host in place of a GPU's. For tests where there
 * is no GPU: cc -shared -fPIC -o libfakecuda.so fake-cuda.c */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { out_of_memory = 2, invalid_value = 1, illegal_address = 700, most_blocks = 4096 };
static const uint64_t magic = 0x67616c6174656121ull;

/* FAKE_CUDA_BYTES bounds what can be allocated. */
static size_t used_bytes;
static struct { char *start; size_t size; } blocks[most_blocks];

static size_t limit(void) {
  const char *text = getenv("FAKE_CUDA_BYTES");
  return text == NULL ? (size_t)1 << 30 : strtoull(text, NULL, 10);
}

int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal < 2 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(uint64_t *context, int device) { *context = 16 + device; return 0; }
int cuCtxSetCurrent(uint64_t context) { return context == 0; }
int cuCtxPushCurrent_v2(uint64_t context) { return context == 0; }
int cuCtxPopCurrent_v2(uint64_t *context) { *context = 0; return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)from, size); return 0; }
static int open_streams;
int cuStreamCreate(uint64_t *stream, unsigned flags) { open_streams++; *stream = 32 + flags; return 0; }
int cuStreamDestroy_v2(uint64_t stream) { open_streams--; return stream == 0; }
int fakeOpenStreams(void) { return open_streams; }
int cuStreamSynchronize(uint64_t stream) { return stream == 0; }
int cuStreamQuery(uint64_t stream) { return stream == 0; }
int cuGetErrorName(int code, const char **text) {
  *text = code == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY" : code == illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuGetErrorString(int code, const char **text) {
  *text = code == out_of_memory ? "out of memory" : code == illegal_address ? "an illegal memory access was encountered" : "invalid argument";
  return 0;
}
/* With a code other than 0 every copy to the GPU and every allocation there fails with it, as after a kernel that broke the context. */
static int failing;
void fakeFail(int code) { failing = code; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, uint64_t stream) {
  if (failing != 0) return failing;
  memcpy((void *)to, from, size);
  return stream == 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, uint64_t stream) {
  memcpy(to, (void *)from, size);
  return stream == 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, uint64_t stream) {
  memcpy((void *)to, (void *)from, size);
  return stream == 0;
}
int cuMemAlloc_v2(uint64_t *address, size_t size) {
  if (failing != 0) return failing;
  if (used_bytes + size > limit()) return out_of_memory;
  void *memory = aligned_alloc(256, (size + 255) / 256 * 256);
  if (memory == NULL) return out_of_memory;
  for (int i = 0; i < most_blocks; i++) {
    if (blocks[i].start != NULL) continue;
    blocks[i].start = memory;
    blocks[i].size = size;
    used_bytes += size;
    *address = (uint64_t)memory;
    return 0;
  }
  free(memory);
  return out_of_memory;
}
int cuMemFree_v2(uint64_t address) {
  for (int i = 0; i < most_blocks; i++) {
    if (blocks[i].start != (char *)address) continue;
    used_bytes -= blocks[i].size;
    blocks[i].start = NULL;
    free((void *)address);
    return 0;
  }
  return invalid_value;
}
int cuMemHostAlloc(void **memory, size_t size, unsigned flags) {
  *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  return *memory == NULL ? out_of_memory : flags - 1;
}
int cuMemFreeHost(void *memory) { free(memory); return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *all) {
  *all = limit();
  *left = *all - used_bytes;
  return 0;
}
int cuMemGetAddressRange_v2(uint64_t *start, size_t *size, uint64_t address) {
  for (int i = 0; i < most_blocks; i++) {
    if (blocks[i].start == NULL || (char *)address < blocks[i].start) continue;
    if ((char *)address >= blocks[i].start + blocks[i].size) continue;
    *start = (uint64_t)blocks[i].start;
    *size = blocks[i].size;
    return 0;
  }
  return invalid_value;
}

/* A handle has a magic number and the address; there is one process only. */
typedef struct { char reserved[64]; } handle_t;
static int open_handles;
int cuIpcGetMemHandle(handle_t *handle, uint64_t address) {
  memset(handle, 0, sizeof *handle);
  memcpy(handle->reserved, &magic, 8);
  memcpy(handle->reserved + 8, &address, 8);
  return 0;
}
int cuIpcOpenMemHandle_v2(uint64_t *address, handle_t handle, unsigned flags) {
  if (memcmp(handle.reserved, &magic, 8) != 0 || flags != 1) return invalid_value;
  memcpy(address, handle.reserved + 8, 8);
  open_handles++;
  return 0;
}
int cuIpcCloseMemHandle(uint64_t address) { open_handles--; return address == 0; }
int fakeOpenHandles(void) { return open_handles; }
size_t fakeUsedBytes(void) { return used_bytes; }

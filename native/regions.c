// Memory that the host shares with the server. The server writes inputs and frees them by itself once it is told; the host gives out
// blocks for outputs, in which backends write, and gets them back from the server.
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "host.h"

#define PAGE 4096
#define BLOCK 64

// Blocks cover the whole region in the order of their offsets. No two free blocks touch.
typedef struct Block { uint64_t offset, bytes; bool is_free; struct Block *before, *after; } Block;

bool region_open(Region *region, int fd, size_t initial, size_t limit) {
  // The whole address range is mapped at once, so that a region that grows never moves.
  void *base = mmap(NULL, limit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return false;
  *region = (Region){.fd = fd, .base = base, .mapped = limit, .limit = limit, .capacity = initial, .initial = initial};
  pthread_mutex_init(&region->lock, NULL);
  region->blocks = allocate(sizeof(Block));
  *region->blocks = (Block){.bytes = initial, .is_free = true};
  return true;
}

void region_close(Region *region) {
  if (region->base != NULL) munmap(region->base, region->mapped);
  for (Block *block = region->blocks; block != NULL;) {
    Block *after = block->after;
    free(block);
    block = after;
  }
  close(region->fd);
  region->base = NULL;
  region->blocks = NULL;
}

const void *region_view(Region *region, uint64_t offset, uint64_t bytes) {
  if (bytes > region->limit || offset > region->limit - bytes) return NULL;
  if (offset + bytes > region->capacity) {
    // The server has made the file larger.
    struct stat file;
    if (fstat(region->fd, &file) != 0 || (uint64_t)file.st_size < offset + bytes) return NULL;
    region->capacity = (size_t)file.st_size;
  }
  return region->base + offset;
}

static Block *last_block(Region *region) {
  Block *block = region->blocks;
  while (block->after != NULL) block = block->after;
  return block;
}

static Block *grow(Region *region, uint64_t bytes) {
  Block *last = last_block(region);
  uint64_t needed = align_to(region->capacity - (last->is_free ? last->bytes : 0) + bytes, PAGE);
  if (needed > region->limit) return NULL;
  uint64_t doubled = region->capacity * 2 < region->limit ? region->capacity * 2 : region->limit;
  uint64_t capacity = needed > doubled ? needed : doubled;
  if (ftruncate(region->fd, (off_t)capacity) != 0) return NULL;
  if (last->is_free) last->bytes += capacity - region->capacity;
  else {
    Block *added = allocate(sizeof *added);
    *added = (Block){region->capacity, capacity - region->capacity, true, last, NULL};
    last->after = added;
    last = added;
  }
  region->capacity = capacity;
  return last;
}

static void split(Block *block, uint64_t bytes) {
  if (block->bytes == bytes) return;
  Block *rest = allocate(sizeof *rest);
  *rest = (Block){block->offset + bytes, block->bytes - bytes, true, block, block->after};
  if (block->after != NULL) block->after->before = rest;
  block->after = rest;
  block->bytes = bytes;
}

static void join_with_next(Block *block) {
  Block *next = block->after;
  if (next == NULL || !next->is_free || !block->is_free) return;
  block->bytes += next->bytes;
  block->after = next->after;
  if (next->after != NULL) next->after->before = block;
  free(next);
}

void *region_take(Region *region, uint64_t bytes, uint64_t *offset) {
  if (bytes > region->limit) return NULL;
  uint64_t needed = align_to(bytes > 0 ? bytes : 1, BLOCK);
  pthread_mutex_lock(&region->lock);
  Block *block = region->blocks;
  while (block != NULL && (!block->is_free || block->bytes < needed)) block = block->after;
  if (block == NULL) block = grow(region, needed);
  if (block != NULL) {
    split(block, needed);
    block->is_free = false;
    region->used += needed;
    *offset = block->offset;
  }
  pthread_mutex_unlock(&region->lock);
  return block == NULL ? NULL : region->base + *offset;
}

bool region_give(Region *region, uint64_t offset) {
  pthread_mutex_lock(&region->lock);
  Block *block = region->blocks;
  while (block != NULL && block->offset != offset) block = block->after;
  bool is_known = block != NULL && !block->is_free;
  if (is_known) {
    block->is_free = true;
    region->used -= block->bytes;
    join_with_next(block);
    if (block->before != NULL) join_with_next(block->before);
  }
  pthread_mutex_unlock(&region->lock);
  return is_known;
}

void region_trim(Region *region) {
  pthread_mutex_lock(&region->lock);
  if (region->used == 0 && region->capacity > region->initial)
    madvise(region->base + region->initial, region->capacity - region->initial, MADV_REMOVE);
  pthread_mutex_unlock(&region->lock);
}

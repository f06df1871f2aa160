// Memory, texts and pools. A host without memory ends: its server starts another one.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "host.h"

_Noreturn void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("galatea-native-host: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  _exit(70);
}

void *allocate(size_t bytes) {
  void *memory = calloc(1, bytes > 0 ? bytes : 1);
  if (memory == NULL) die("out of memory: %zu bytes were needed", bytes);
  return memory;
}

void *reallocate(void *memory, size_t bytes) {
  void *grown = realloc(memory, bytes > 0 ? bytes : 1);
  if (grown == NULL) die("out of memory: %zu bytes were needed", bytes);
  return grown;
}

char *copy_text(const char *text, size_t bytes) {
  char *copy = allocate(bytes + 1);
  if (bytes > 0) memcpy(copy, text, bytes);
  return copy;
}

uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void text_reserve(Text *text, size_t more) {
  if (text->size + more <= text->capacity) return;
  size_t capacity = text->capacity * 2 > 256 ? text->capacity * 2 : 256;
  while (capacity < text->size + more) capacity *= 2;
  text->bytes = reallocate(text->bytes, capacity);
  text->capacity = capacity;
}

void text_add(Text *text, const void *bytes, size_t count) {
  text_reserve(text, count + 1);
  if (count > 0) memcpy(text->bytes + text->size, bytes, count);
  text->size += count;
  text->bytes[text->size] = 0;
}

void text_pad(Text *text, size_t step) {
  static const char zeros[64];
  text_add(text, zeros, align_to(text->size, step) - text->size);
}

char *print_text(const char *format, va_list arguments) {
  char *printed = NULL;
  if (vasprintf(&printed, format, arguments) < 0) die("out of memory while a text was printed");
  return printed;
}

void text_print(Text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *printed = print_text(format, arguments);
  va_end(arguments);
  text_add(text, printed, strlen(printed));
  free(printed);
}

void text_json_string(Text *text, const char *string) {
  text_add(text, "\"", 1);
  for (const unsigned char *c = (const unsigned char *)string; *c != 0; c++) {
    if (*c == '"' || *c == '\\') text_print(text, "\\%c", *c);
    else if (*c < 0x20) text_print(text, "\\u%04x", *c);
    else text_add(text, c, 1);
  }
  text_add(text, "\"", 1);
}

void text_free(Text *text) {
  free(text->bytes);
  *text = (Text){0};
}

void *pool_take(Pool *pool) {
  pthread_mutex_lock(&pool->lock);
  PoolObject *object = pool->free;
  if (object != NULL) pool->free = object->next_free;
  pthread_mutex_unlock(&pool->lock);
  if (object == NULL) object = allocate(pool->bytes);
  object->mark = pool->mark;
  object->next_free = NULL;
  atomic_fetch_add(&pool->live, 1);
  return object;
}

void pool_give(Pool *pool, void *object) {
  PoolObject *head = object;
  atomic_fetch_sub(&pool->live, 1);
  pthread_mutex_lock(&pool->lock);
  head->mark = ~pool->mark;
  head->next_free = pool->free;
  pool->free = head;
  pthread_mutex_unlock(&pool->lock);
}

void describe_pools(Text *text) {
  Pool *pools[] = {&error_pool, &message_pool, &parameter_pool, &attributes_pool, &request_pool, &response_pool,
    &output_pool, &factory_pool, &exchange_pool, &state_pool, &statistics_pool, &trace_pool};
  text_add(text, "{", 1);
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
    const char *name = strchr(pools[i]->name, '_') == NULL ? pools[i]->name : strchr(pools[i]->name, '_') + 1;
    text_print(text, "%s\"%s\":%ld", i == 0 ? "" : ",", name, atomic_load(&pools[i]->live));
  }
  text_add(text, "}", 1);
}

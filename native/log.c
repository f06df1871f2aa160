// The log of backends: lines of the server's log, with the backend's file and line.
#include <stdio.h>
#include <stdlib.h>
#include "host.h"

#define LONGEST_LINE (64 * 1024)

atomic_bool logs_verbose;

static void write_line(TRITONSERVER_LogLevel level, const char *file, int line, const char *text) {
  const char *slash = strrchr(file, '/');
  const char *name = slash == NULL ? file : slash + 1;
  uint16_t name_bytes = (uint16_t)strnlen(name, 255);
  size_t text_bytes = strnlen(text, LONGEST_LINE);
  Channel *channel = current_channel();
  if (channel == NULL) {
    fprintf(stderr, "%.*s:%d %.*s\n", name_bytes, name, line, (int)text_bytes, text);
    return;
  }
  Text body = {0};
  uint8_t head[2] = {(uint8_t)level, 0};
  uint32_t number = line < 0 ? 0 : (uint32_t)line;
  text_add(&body, head, 2);
  text_add(&body, &name_bytes, 2);
  text_add(&body, &number, 4);
  text_add(&body, name, name_bytes);
  text_add(&body, text, text_bytes);
  channel_send(channel, FROM_LOG, 0, body.size, body.bytes, body.size);
  text_free(&body);
}

void log_line(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = print_text(format, arguments);
  va_end(arguments);
  write_line(level, file, line, text);
  free(text);
}

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level) {
  return level != TRITONSERVER_LOG_VERBOSE || atomic_load(&logs_verbose);
}

Error *TRITONSERVER_LogMessage(TRITONSERVER_LogLevel level, const char *filename, int line, const char *msg) {
  if (TRITONSERVER_LogIsEnabled(level)) write_line(level, filename == NULL ? "" : filename, line, msg == NULL ? "" : msg);
  return NULL;
}

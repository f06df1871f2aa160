// The host: takes channels from the server, and runs each in a thread of its own.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "host.h"

#define CONTROL_FD 3
// A channel comes as its socket, and the memory of inputs and outputs where memory is shared.
#define MOST_DESCRIPTORS 3

// Of all channels. A host without channels that had one has nothing to do any more.
static atomic_int open_channels;

static const char *body_text(const Frame *frame, size_t *bytes) {
  uint64_t length = 0;
  if (frame->size >= HEADER_BYTES + 8) memcpy(&length, frame->bytes + HEADER_BYTES, 8);
  *bytes = length > frame->size - HEADER_BYTES - 8 ? 0 : (size_t)length;
  return frame->bytes + HEADER_BYTES + 8;
}

static Json *read_settings(const Frame *frame) {
  size_t bytes;
  const char *text = body_text(frame, &bytes);
  Json *settings = json_parse(text, bytes);
  if (settings == NULL) die("the server sent settings that are no JSON");
  return settings;
}

static void say_failure(Channel *channel, Error *error) {
  Text text = {0};
  text_print(&text, "{\"code\":%d,\"message\":", (int)error->code);
  text_json_string(&text, TRITONSERVER_ErrorMessage(error));
  text_add(&text, "}", 1);
  channel_send_text(channel, FROM_START_FAILED, 0, text.bytes, text.size);
  text_free(&text);
  TRITONSERVER_ErrorDelete(error);
}

// Of the data of the process, as for Python models: memory that is shared with the server does not count.
static void limit_memory(const Json *settings) {
  int64_t bytes = json_integer(settings, "maxMemoryBytes", 0);
  struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};
  if (bytes > 0 && setrlimit(RLIMIT_DATA, &limit) != 0) LOG_WARNING("the limit of memory could not be set");
}

static Error *open_memory(Channel *channel, const Json *memory, const int *descriptors) {
  if (memory == NULL || memory->kind != JSON_OBJECT || descriptors[1] < 0 || channel->has_memory) return NULL;
  size_t initial = (size_t)json_integer(memory, "initialBytes", 0), limit = (size_t)json_integer(memory, "maxBytes", 0);
  channel->inline_bytes = (size_t)json_integer(memory, "inlineBytes", 0);
  if (!region_open(&channel->inputs, descriptors[1], initial, limit) ||
      !region_open(&channel->outputs, descriptors[2], initial, limit))
    return fail(TRITONSERVER_ERROR_UNAVAILABLE, "%zu bytes of shared memory cannot be mapped", limit);
  channel->has_memory = true;
  return NULL;
}

static void on_complete(Channel *channel, const Json *settings) {
  Text completed = {0};
  Error *error = model_complete(settings, &completed);
  if (error == NULL) channel_send_text(channel, FROM_CONFIG_COMPLETED, 0, completed.bytes, completed.size);
  else say_failure(channel, error);
  text_free(&completed);
}

static void on_initialize(Channel *channel, const Json *settings, const int *descriptors) {
  limit_memory(settings);
  Error *error = open_memory(channel, json_member(settings, "sharedMemory"), descriptors);
  if (error == NULL) error = instance_open(channel, settings);
  if (error == NULL) channel_send(channel, FROM_INITIALIZED, 0, 0, NULL, 0);
  else say_failure(channel, error);
}

// What holds for all models of a host.
static void apply_to_host(const Json *settings) {
  atomic_store(&logs_verbose, json_flag(settings, "isVerbose"));
  const Json *memory = json_member(settings, "gpuMemory");
  gpu_memory_limit((uint64_t)json_integer(memory, "pinnedBytes", 0), (uint64_t)json_integer(memory, "deviceBytes", 0));
}

static bool handle(Channel *channel, Frame *frame, const int *descriptors) {
  bool is_setting = frame->kind == TO_COMPLETE_CONFIG || frame->kind == TO_INITIALIZE;
  Json *settings = is_setting ? read_settings(frame) : NULL;
  if (is_setting) apply_to_host(settings);
  switch (frame->kind) {
    case TO_EXECUTE:
      if (channel->instance == NULL) die("the server sent requests before the model was initialized");
      execute_frame(channel->instance, frame);
      break;
    case TO_COMPLETE_CONFIG: on_complete(channel, settings); break;
    case TO_INITIALIZE: on_initialize(channel, settings, descriptors); break;
    case TO_PING: channel_send(channel, FROM_PONG, 0, 0, NULL, 0); break;
    case TO_TRIM:
      if (channel->has_memory) region_trim(&channel->outputs);
      break;
    case TO_FINALIZE: return false;
    default: die("the server sent a frame of unknown kind %u", frame->kind);
  }
  json_free(settings);
  return true;
}

typedef struct { int descriptors[MOST_DESCRIPTORS]; } Start;

static void *serve(void *argument) {
  Start start = *(Start *)argument;
  free(argument);
  // Responses and metrics of a backend may refer to a channel after its end, so its memory stays.
  Channel *channel = allocate(sizeof *channel);
  channel_open(channel, start.descriptors[0]);
  set_current_channel(channel);
  Text hello = {0};
  text_print(&hello, "{\"pid\":%d,\"executable\":\"galatea-native-host\"}", (int)getpid());
  channel_send_text(channel, FROM_HELLO, 0, hello.bytes, hello.size);
  text_free(&hello);
  bool goes_on = true;
  while (goes_on) {
    Frame *frame = channel_next(channel);
    // The server is gone, and with it the reason of this process.
    if (frame == NULL) _exit(0);
    goes_on = handle(channel, frame, start.descriptors);
    frame_release(frame);
  }
  if (channel->instance != NULL) instance_close(channel->instance);
  channel->instance = NULL;
  Text counts = {0};
  describe_pools(&counts);
  if (atomic_load(&logs_verbose)) log_line(TRITONSERVER_LOG_VERBOSE, __FILE__, __LINE__, "objects alive: %s", counts.bytes);
  text_free(&counts);
  set_current_channel(NULL);
  channel_close(channel);
  if (atomic_fetch_sub(&open_channels, 1) == 1) {
    fflush(NULL);
    _exit(0);
  }
  return NULL;
}

// One message of the control socket is one channel; false at the end of the connection.
static bool accept_channel(void) {
  Start *start = allocate(sizeof *start);
  for (int i = 0; i < MOST_DESCRIPTORS; i++) start->descriptors[i] = -1;
  char byte;
  struct iovec part = {&byte, 1};
  union { char bytes[CMSG_SPACE(sizeof start->descriptors)]; struct cmsghdr align; } control;
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t bytes;
  do bytes = recvmsg(CONTROL_FD, &message, MSG_CMSG_CLOEXEC);
  while (bytes < 0 && errno == EINTR);
  struct cmsghdr *header = bytes <= 0 ? NULL : CMSG_FIRSTHDR(&message);
  if (header == NULL || header->cmsg_type != SCM_RIGHTS) {
    free(start);
    return bytes > 0;
  }
  size_t given = header->cmsg_len - CMSG_LEN(0);
  memcpy(start->descriptors, CMSG_DATA(header), given < sizeof start->descriptors ? given : sizeof start->descriptors);
  atomic_fetch_add(&open_channels, 1);
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve, start) != 0) die("no thread could be started for an instance");
  pthread_detach(thread);
  return true;
}

static void ignore_signal(int number) { (void)number; }

int galatea_host(int argc, char **argv) {
  // The server asks before it trusts a program that was built elsewhere.
  if (argc > 1 && strcmp(argv[1], "--version") == 0) return puts("galatea-native-host") < 0;
  // A signal for the whole group (Ctrl-C, systemd) must not end the host before the server has drained.
  signal(SIGINT, ignore_signal);
  signal(SIGTERM, ignore_signal);
  signal(SIGPIPE, SIG_IGN);
  pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (accept_channel()) continue;
  _exit(0);
}

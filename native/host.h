// The parts of the host and what they offer each other. One host is one process. It has a channel to the server for each instance,
// and a thread that reads the channel and executes.
#ifndef GALATEA_HOST_H
#define GALATEA_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <string.h>
#include "frames.h"
#include "triton-api.h"

typedef TRITONSERVER_Error Error;

// ---- base.c: memory, text, time

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *allocate(size_t bytes);
void *reallocate(void *memory, size_t bytes);
char *copy_text(const char *text, size_t bytes);
// What printf would print. The caller frees it.
char *print_text(const char *format, va_list arguments);
uint64_t now_ns(void);

static inline size_t align_to(size_t value, size_t step) { return (value + step - 1) & ~(step - 1); }

// Bytes that grow. A text that overflows the memory ends the host.
typedef struct { char *bytes; size_t size, capacity; } Text;
void text_add(Text *text, const void *bytes, size_t count);
void text_pad(Text *text, size_t step);
void text_print(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_json_string(Text *text, const char *string);
void text_free(Text *text);

// Objects of one type. Their memory is never given back, so that the mark of an object that a backend uses after its end can be
// read safely.
typedef struct { pthread_mutex_t lock; void *free; size_t bytes; uint32_t mark; atomic_long live; const char *name; } Pool;
typedef struct { uint32_t mark; void *next_free; } PoolObject;
#define POOL(type, mark_of_type) { PTHREAD_MUTEX_INITIALIZER, NULL, sizeof(type), mark_of_type, 0, #type }
void *pool_take(Pool *pool);
void pool_give(Pool *pool, void *object);
static inline bool pool_lives(const Pool *pool, const void *object) {
  return object != NULL && ((const PoolObject *)object)->mark == pool->mark;
}
extern Pool error_pool, message_pool, parameter_pool, attributes_pool, request_pool, response_pool, output_pool, factory_pool,
  exchange_pool, state_pool, statistics_pool, trace_pool;
void describe_pools(Text *text);

// ---- json.c

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_INTEGER, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonKind;
typedef struct Json {
  JsonKind kind;
  char *name;
  char *text;
  int64_t integer;
  double number;
  struct Json *first, *next;
} Json;
// NULL for a text that is no JSON.
Json *json_parse(const char *text, size_t bytes);
void json_free(Json *value);
const Json *json_member(const Json *object, const char *name);
const char *json_text(const Json *object, const char *name, const char *fallback);
int64_t json_integer(const Json *object, const char *name, int64_t fallback);
bool json_flag(const Json *object, const char *name);
size_t json_count(const Json *list);

// ---- objects.c: what backends make and delete themselves

struct TRITONSERVER_Error { PoolObject head; TRITONSERVER_Error_Code code; char *text; };
struct TRITONSERVER_Message { PoolObject head; char *bytes; size_t size; };
struct TRITONSERVER_Parameter {
  PoolObject head;
  char *name;
  TRITONSERVER_ParameterType type;
  char *text;
  size_t size;
  int64_t integer;
  double number;
  bool flag;
};
struct TRITONSERVER_BufferAttributes { PoolObject head; size_t size; TRITONSERVER_MemoryType type; int64_t id; void *ipc_handle; };
Error *fail(TRITONSERVER_Error_Code code, const char *format, ...) __attribute__((format(printf, 2, 3)));
Error *fail_stale(const void *object, const char *what);
TRITONSERVER_Message *message_new(const char *bytes, size_t size);
void message_free(TRITONSERVER_Message *message);

// ---- regions.c: memory shared with the server

typedef struct Region {
  int fd;
  char *base;
  size_t mapped, limit, capacity, initial;
  pthread_mutex_t lock;
  // Of the outputs only: blocks in the order of their offsets, free or not.
  struct Block *blocks;
  size_t used;
} Region;
bool region_open(Region *region, int fd, size_t initial, size_t limit);
void region_close(Region *region);
// The bytes of a block that the server wrote; NULL when they lie outside of the memory.
const void *region_view(Region *region, uint64_t offset, uint64_t bytes);
// A block for an output; NULL when there is no room.
void *region_take(Region *region, uint64_t bytes, uint64_t *offset);
bool region_give(Region *region, uint64_t offset);
void region_trim(Region *region);

// ---- channel.c: frames from and to the server

typedef struct Frame {
  atomic_int users;
  struct Frame *next;
  uint32_t size;
  uint16_t kind, count;
  uint64_t id;
  _Alignas(16) char bytes[];
} Frame;
void frame_release(Frame *frame);

typedef struct Exchange Exchange;
typedef struct Channel Channel;
typedef struct Reply { uint64_t id; Json *value; struct Reply *next; } Reply;

#define EXCHANGE_BUCKETS 1024
#define MOST_FREED 512

struct Channel {
  // -1 when it is closed. The memory of a channel stays, because a backend may still hold objects that name it.
  int fd;
  Channel *next_open;
  bool has_memory;
  Region inputs, outputs;
  size_t inline_bytes;
  TRITONBACKEND_ModelInstance *instance;

  // Guarded by `state`: what arrived, and who reads.
  pthread_mutex_t state;
  pthread_cond_t progress;
  bool is_reading, is_closed;
  int waiters;
  Frame *tasks, *last_task;
  Exchange *exchanges[EXCHANGE_BUCKETS];
  Text cancelled_early;
  Reply *replies;
  uint64_t next_call;
  uint64_t polled_ns;

  // Only whoever reads uses these.
  char *received;
  size_t received_bytes;
  Frame *partial;
  size_t partial_bytes;

  // Guarded by `write`.
  pthread_mutex_t write;
  uint64_t freed[MOST_FREED];
  uint32_t freed_count;
  Text deferred;
  // Where the last frame of `deferred` begins.
  size_t last_deferred;
};
void channel_open(Channel *channel, int fd);
void channel_close(Channel *channel);
// The next frame that the thread of the channel must handle itself; NULL at the end of the connection.
Frame *channel_next(Channel *channel);
// Reads what has arrived, without waiting.
void channel_poll(Channel *channel);
// Waits, and reads meanwhile, until `is_done`. False at the end of the connection.
bool channel_wait(Channel *channel, bool (*is_done)(void *argument), void *argument);
void channel_send(Channel *channel, uint16_t kind, uint16_t count, uint64_t id, const void *body, size_t bytes);
// The frame leaves with the next one that is sent.
void channel_defer(Channel *channel, uint16_t kind, uint16_t count, uint64_t id, const void *body, size_t bytes);
// The same for one record of whole 16 bytes. Records of one kind that follow each other share a frame.
void channel_defer_record(Channel *channel, uint16_t kind, const void *record, size_t bytes);
void channel_send_text(Channel *channel, uint16_t kind, uint64_t id, const char *text, size_t bytes);
void channel_flush(Channel *channel);
// The server may use the block again. It is told with the next frame.
void channel_free_input(Channel *channel, uint64_t offset);
// A question with one answer; NULL at the end of the connection. The caller frees the answer.
Json *channel_ask(Channel *channel, Text *question);
// The channel of the calling thread, or of the first instance.
Channel *current_channel(void);
void set_current_channel(Channel *channel);

// One frame that is made in parts: heads of records, and behind them the bytes of tensors.
typedef struct { Text head, data; size_t *records; size_t record_count, record_capacity; } Writer;
void writer_begin(Writer *writer);
void writer_send(Channel *channel, Writer *writer, uint16_t kind, uint16_t count, uint64_t id);

// ---- exchange.c: one request from its arrival to its last answer; outlives the request object of the backend

struct Exchange {
  PoolObject head;
  uint64_t handle;
  Channel *channel;
  TRITONBACKEND_ModelInstance *instance;
  atomic_int users;
  atomic_bool is_cancelled, has_ended;
  // The request object, and responses that were not sent yet. A request that is to run again is told to the server after the last of them.
  atomic_int open_count;
  atomic_bool is_rescheduled;
  // Guarded by the state lock of the channel: sizes of answers that the reader has not taken yet.
  uint32_t ahead[64];
  uint32_t ahead_first, ahead_count;
  uint64_t ahead_bytes;
  // What the backend keeps for the next request of the sequence. It travels with the response.
  TRITONBACKEND_State *states;
  Exchange *next;
};
Exchange *exchange_begin(Channel *channel, uint64_t handle, bool is_cancelled);
void exchange_use(Exchange *exchange);
void exchange_release(Exchange *exchange);
void exchange_open(Exchange *exchange);
void exchange_close(Exchange *exchange);
// True for the caller that ends it; false when it has ended before.
bool exchange_end(Exchange *exchange);
void exchange_cancel(Channel *channel, uint64_t handle);
void exchange_taken(Channel *channel, uint64_t handle, uint32_t count);
void exchange_wait_for_reader(Exchange *exchange);
void exchange_sent(Exchange *exchange, uint64_t bytes);

// ---- model.c: backend, model, instance

struct TRITONBACKEND_MemoryManager { int unused; };
typedef struct {
  Error *(*initialize)(TRITONBACKEND_Backend *);
  Error *(*finalize)(TRITONBACKEND_Backend *);
  Error *(*attributes)(TRITONBACKEND_Backend *, TRITONBACKEND_BackendAttribute *);
  Error *(*model_initialize)(TRITONBACKEND_Model *);
  Error *(*model_finalize)(TRITONBACKEND_Model *);
  Error *(*instance_initialize)(TRITONBACKEND_ModelInstance *);
  Error *(*instance_finalize)(TRITONBACKEND_ModelInstance *);
  Error *(*execute)(TRITONBACKEND_ModelInstance *, TRITONBACKEND_Request **, uint32_t);
} EntryPoints;
struct TRITONBACKEND_BackendAttribute { bool loads_in_parallel; Text groups; };
struct TRITONBACKEND_Backend {
  char *name, *directory, *library;
  TRITONSERVER_Message *config;
  void *handle, *state;
  EntryPoints calls;
  TRITONBACKEND_MemoryManager memory;
  TRITONBACKEND_ExecutionPolicy policy;
  struct TRITONBACKEND_BackendAttribute attributes;
  int models;
  TRITONBACKEND_Backend *next;
};
struct TRITONBACKEND_Model {
  char *key, *name, *directory;
  uint64_t version;
  TRITONSERVER_Message *config;
  TRITONBACKEND_Backend *backend;
  bool may_complete, was_completed, is_decoupled, is_iterative;
  void *state;
  char **inputs, **outputs;
  size_t input_count, output_count;
  // The outputs that carry implicit state, and those of them that are no outputs for clients.
  char **states, **hidden;
  size_t state_count, hidden_count;
  pthread_mutex_t execution, loading;
  int instances;
  TRITONBACKEND_Model *next;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model *model;
  Channel *channel;
  char *name;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device;
  bool is_passive;
  TRITONSERVER_Message *policy;
  char **profiles;
  size_t profile_count;
  struct { char *kind; int64_t id; } *secondary;
  size_t secondary_count;
  void *state;
};
// Both return what the server is told when it did not work.
Error *model_complete(const Json *settings, Text *completed);
Error *instance_open(Channel *channel, const Json *settings);
void instance_close(TRITONBACKEND_ModelInstance *instance);

// ---- library.c, or triton-server.c in the program that runs backends in Triton's own server

// Fills the entry points of the backend.
Error *backend_load(TRITONBACKEND_Backend *backend);

// ---- request.c

typedef struct TRITONBACKEND_Input {
  const char *name;
  TRITONSERVER_DataType type;
  const int64_t *shape;
  uint32_t rank;
  const void *base;
  uint64_t size;
  uint64_t block;
  bool is_shared;
  TRITONSERVER_BufferAttributes attributes;
} Input;
struct TRITONBACKEND_Request {
  PoolObject head;
  Exchange *exchange;
  TRITONBACKEND_ModelInstance *instance;
  Frame *frame;
  Input *inputs;
  uint32_t input_count, input_capacity;
  // NULL: all outputs of the model.
  const char **outputs;
  uint32_t output_count, output_capacity;
  Text texts;
  const char *id, *correlation_text;
  uint64_t correlation, timeout_us;
  uint32_t flags;
  TRITONSERVER_Parameter **parameters;
  uint32_t parameter_count;
  TRITONSERVER_InferenceTrace *trace;
  uint32_t place;
};
struct TRITONSERVER_InferenceTrace { PoolObject head; uint64_t handle; Channel *channel; char *context, *request_id; TRITONBACKEND_Model *model; };
// Reads the request at `*offset` of the frame; NULL when the frame does not hold one.
TRITONBACKEND_Request *request_read(TRITONBACKEND_ModelInstance *instance, Frame *frame, size_t *offset);
void request_free(TRITONBACKEND_Request *request);

// ---- response.c

struct TRITONBACKEND_Output {
  PoolObject head;
  Exchange *exchange;
  char *name;
  TRITONSERVER_DataType type;
  int64_t *shape;
  uint32_t rank;
  void *base;
  uint64_t size, block;
  bool is_shared, has_buffer;
  TRITONSERVER_BufferAttributes attributes;
  TRITONBACKEND_Output *next;
};
struct TRITONBACKEND_Response {
  PoolObject head;
  Exchange *exchange;
  TRITONBACKEND_Output *outputs, *last_output;
  uint32_t output_count;
  Text parameters;
};
struct TRITONBACKEND_ResponseFactory { PoolObject head; Exchange *exchange; };
TRITONBACKEND_Output *output_new(Exchange *exchange, const char *name, TRITONSERVER_DataType type, const int64_t *shape, uint32_t rank);
void response_append(TRITONBACKEND_Response *response, TRITONBACKEND_Output *output);
// `keeps_block`: it was sent, and the server gives its block back.
void output_free(TRITONBACKEND_Output *output, bool keeps_block);
// One answer without outputs: an error, or the final flag alone where `text` is NULL. Ends the exchange where `is_final`.
void answer_plainly(Exchange *exchange, bool is_final, TRITONSERVER_Error_Code code, const char *text);

// ---- execute.c

// The answers that one execution collects; NULL outside of one, and on other threads.
typedef struct {
  Channel *channel;
  Writer writer;
  uint32_t count;
  uint64_t started_ns;
  TRITONBACKEND_Request **requests;
  uint32_t request_count;
} Execution;
Execution *current_execution(Channel *channel);
void execute_frame(TRITONBACKEND_ModelInstance *instance, Frame *frame);

// ---- state.c: implicit state

struct TRITONBACKEND_State { PoolObject head; TRITONBACKEND_Output *output; bool is_updated; TRITONBACKEND_State *next; };
void states_free(Exchange *exchange);
bool state_is_hidden(const TRITONBACKEND_Model *model, const char *output);

// ---- gpu-memory.c: pinned memory, and memory of GPUs

// What the host may have of both: of pinned memory, and of each GPU.
void gpu_memory_limit(uint64_t pinned_bytes, uint64_t device_bytes);
Error *gpu_memory_take(TRITONSERVER_MemoryType type, int64_t device, uint64_t bytes, void **buffer);
Error *gpu_memory_give(TRITONSERVER_MemoryType type, int64_t device, void *buffer);

// ---- log.c

void log_line(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...)
  __attribute__((format(printf, 4, 5)));
#define LOG_WARNING(...) log_line(TRITONSERVER_LOG_WARN, __FILE__, __LINE__, __VA_ARGS__)
#define LOG_ERROR(...) log_line(TRITONSERVER_LOG_ERROR, __FILE__, __LINE__, __VA_ARGS__)
extern atomic_bool logs_verbose;

// ---- main.c

__attribute__((visibility("default"))) int galatea_host(int argc, char **argv);

#endif

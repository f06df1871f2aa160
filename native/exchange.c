// One request from its arrival to its last answer. The request object, response factories and responses of a backend each use it, so it
// outlives the request object. When nobody uses it any more and no last answer was given, the host gives one.
#include "host.h"

// A decoupled model may be this far ahead of the reader of its answers. The server confirms at the half of it.
#define WINDOW_RESPONSES 32
#define WINDOW_BYTES (512 * 1024)

Pool exchange_pool = POOL(Exchange, 0x45584330);

static _Thread_local Exchange *answered_last;
static _Thread_local bool answers_several;

static Exchange **bucket_of(Channel *channel, uint64_t handle) { return &channel->exchanges[handle % EXCHANGE_BUCKETS]; }

// With the state lock held.
static Exchange *find(Channel *channel, uint64_t handle) {
  Exchange *exchange = *bucket_of(channel, handle);
  while (exchange != NULL && exchange->handle != handle) exchange = exchange->next;
  return exchange;
}

// With the state lock held.
static bool was_cancelled_early(Channel *channel, uint64_t handle) {
  const char *bytes = channel->cancelled_early.bytes;
  for (size_t at = 0; at < channel->cancelled_early.size; at += sizeof handle)
    if (memcmp(bytes + at, &handle, sizeof handle) == 0) return true;
  return false;
}

Exchange *exchange_begin(Channel *channel, uint64_t handle, bool is_cancelled) {
  Exchange *exchange = pool_take(&exchange_pool);
  exchange->handle = handle;
  exchange->channel = channel;
  exchange->instance = channel->instance;
  atomic_init(&exchange->users, 1);
  atomic_init(&exchange->is_cancelled, is_cancelled);
  atomic_init(&exchange->has_ended, false);
  atomic_init(&exchange->open_count, 1);
  atomic_init(&exchange->is_rescheduled, false);
  exchange->ahead_first = exchange->ahead_count = 0;
  exchange->ahead_bytes = 0;
  exchange->states = NULL;
  pthread_mutex_lock(&channel->state);
  if (was_cancelled_early(channel, handle)) atomic_store(&exchange->is_cancelled, true);
  Exchange **bucket = bucket_of(channel, handle);
  exchange->next = *bucket;
  *bucket = exchange;
  pthread_mutex_unlock(&channel->state);
  return exchange;
}

void exchange_use(Exchange *exchange) { atomic_fetch_add(&exchange->users, 1); }

static void forget(Exchange *exchange) {
  Channel *channel = exchange->channel;
  pthread_mutex_lock(&channel->state);
  Exchange **at = bucket_of(channel, exchange->handle);
  while (*at != NULL && *at != exchange) at = &(*at)->next;
  if (*at != NULL) *at = exchange->next;
  pthread_mutex_unlock(&channel->state);
}

void exchange_release(Exchange *exchange) {
  if (atomic_fetch_sub(&exchange->users, 1) != 1) return;
  if (!atomic_load(&exchange->has_ended)) {
    // The answer needs the exchange once more.
    atomic_store(&exchange->users, 1);
    answer_plainly(exchange, true, TRITONSERVER_ERROR_INTERNAL,
      "the backend released the request without a final response to it");
    atomic_store(&exchange->users, 0);
  }
  forget(exchange);
  states_free(exchange);
  if (answered_last == exchange) answered_last = NULL;
  pool_give(&exchange_pool, exchange);
}

void exchange_open(Exchange *exchange) { atomic_fetch_add(&exchange->open_count, 1); }

void exchange_close(Exchange *exchange) {
  if (atomic_fetch_sub(&exchange->open_count, 1) != 1 || !atomic_load(&exchange->is_rescheduled)) return;
  if (!exchange_end(exchange)) return;
  channel_defer(exchange->channel, FROM_RESCHEDULE, 0, exchange->handle, NULL, 0);
  // The end of an execution sends it; a thread of the backend does so itself.
  if (current_execution(exchange->channel) == NULL) channel_flush(exchange->channel);
}

bool exchange_end(Exchange *exchange) { return !atomic_exchange(&exchange->has_ended, true); }

void exchange_cancel(Channel *channel, uint64_t handle) {
  pthread_mutex_lock(&channel->state);
  Exchange *exchange = find(channel, handle);
  if (exchange != NULL) atomic_store(&exchange->is_cancelled, true);
  // The request waits in a frame that nobody has opened yet.
  else if (channel->tasks != NULL) text_add(&channel->cancelled_early, &handle, sizeof handle);
  pthread_mutex_unlock(&channel->state);
}

static uint32_t ahead_room(const Exchange *exchange) {
  return (uint32_t)(sizeof exchange->ahead / sizeof *exchange->ahead) - exchange->ahead_count;
}

void exchange_taken(Channel *channel, uint64_t handle, uint32_t count) {
  pthread_mutex_lock(&channel->state);
  Exchange *exchange = find(channel, handle);
  for (; exchange != NULL && count > 0 && exchange->ahead_count > 0; count--) {
    exchange->ahead_bytes -= exchange->ahead[exchange->ahead_first];
    exchange->ahead_first = (exchange->ahead_first + 1) % (sizeof exchange->ahead / sizeof *exchange->ahead);
    exchange->ahead_count--;
  }
  pthread_mutex_unlock(&channel->state);
}

static bool has_room(void *argument) {
  Exchange *exchange = argument;
  if (atomic_load(&exchange->is_cancelled) || atomic_load(&exchange->has_ended)) return true;
  // New requests wait in the channel. A thread that will have to serve them must not stand still.
  if (answers_several && exchange->channel->tasks != NULL) return true;
  return exchange->ahead_count < WINDOW_RESPONSES && exchange->ahead_bytes < WINDOW_BYTES;
}

void exchange_wait_for_reader(Exchange *exchange) {
  // A thread that answers several requests in turn must not stand still for one slow reader.
  Exchange *last = answered_last;
  if (last != exchange) {
    if (pool_lives(&exchange_pool, last) && !atomic_load(&last->has_ended)) answers_several = true;
    answered_last = exchange;
  }
  if (!answers_several) channel_wait(exchange->channel, has_room, exchange);
}

void exchange_sent(Exchange *exchange, uint64_t bytes) {
  pthread_mutex_lock(&exchange->channel->state);
  if (ahead_room(exchange) > 0) {
    uint32_t size = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
    uint32_t place = (exchange->ahead_first + exchange->ahead_count) % (sizeof exchange->ahead / sizeof *exchange->ahead);
    exchange->ahead[place] = size;
    exchange->ahead_count++;
    exchange->ahead_bytes += size;
  }
  pthread_mutex_unlock(&exchange->channel->state);
}

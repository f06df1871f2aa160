// The socket to the server. Any thread may write. There is no thread that only reads: whoever waits for something reads the frames
// for everybody, because handing each batch from one thread to another costs more than a small model.
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include "host.h"

#define RECEIVE_BYTES (64 * 1024)
// The server refuses to make a larger one.
#define LARGEST_FRAME 0x7ffffff0u
// A frame counts its records in 16 bits.
#define MOST_RECORDS 0xffff
// A backend may ask at every step whether its request is cancelled.
#define POLL_EVERY_NS 500000

static _Thread_local Channel *of_this_thread;
// All that are open, for threads of a backend that belong to none.
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static Channel *first_channel;

Channel *current_channel(void) {
  if (of_this_thread != NULL) return of_this_thread;
  pthread_mutex_lock(&list_lock);
  Channel *channel = first_channel;
  pthread_mutex_unlock(&list_lock);
  return channel;
}

void set_current_channel(Channel *channel) { of_this_thread = channel; }

void channel_open(Channel *channel, int fd) {
  channel->fd = fd;
  pthread_mutex_init(&channel->state, NULL);
  pthread_mutex_init(&channel->write, NULL);
  pthread_cond_init(&channel->progress, NULL);
  channel->received = allocate(RECEIVE_BYTES);
  channel->next_call = 1;
  pthread_mutex_lock(&list_lock);
  channel->next_open = first_channel;
  first_channel = channel;
  pthread_mutex_unlock(&list_lock);
}

void channel_close(Channel *channel) {
  pthread_mutex_lock(&list_lock);
  Channel **at = &first_channel;
  while (*at != channel) at = &(*at)->next_open;
  *at = channel->next_open;
  pthread_mutex_unlock(&list_lock);
  channel_flush(channel);
  pthread_mutex_lock(&channel->write);
  close(channel->fd);
  channel->fd = -1;
  text_free(&channel->deferred);
  pthread_mutex_unlock(&channel->write);
  if (channel->has_memory) {
    region_close(&channel->inputs);
    region_close(&channel->outputs);
  }
  free(channel->received);
  text_free(&channel->cancelled_early);
}

void frame_release(Frame *frame) {
  if (frame != NULL && atomic_fetch_sub(&frame->users, 1) == 1) free(frame);
}

// ---- reading

static Frame *frame_new(const char *header) {
  uint32_t size;
  memcpy(&size, header, 4);
  if (size < HEADER_BYTES || size % 16 != 0 || size > LARGEST_FRAME) die("the server sent a frame of %u bytes", size);
  Frame *frame = aligned_alloc(16, align_to(sizeof(Frame) + size, 16));
  if (frame == NULL) die("out of memory for a frame of %u bytes", size);
  atomic_init(&frame->users, 1);
  frame->next = NULL;
  frame->size = size;
  memcpy(&frame->kind, header + 4, 2);
  memcpy(&frame->count, header + 6, 2);
  memcpy(&frame->id, header + 8, 8);
  return frame;
}

static void keep_reply(Channel *channel, Frame *frame) {
  uint64_t bytes = 0;
  if (frame->size >= HEADER_BYTES + 8) memcpy(&bytes, frame->bytes + HEADER_BYTES, 8);
  if (bytes > frame->size - HEADER_BYTES - 8) bytes = 0;
  Reply *reply = allocate(sizeof *reply);
  reply->id = frame->id;
  reply->value = json_parse(frame->bytes + HEADER_BYTES + 8, bytes);
  pthread_mutex_lock(&channel->state);
  reply->next = channel->replies;
  channel->replies = reply;
  pthread_mutex_unlock(&channel->state);
}

static void free_outputs(Channel *channel, Frame *frame) {
  for (uint32_t i = 0; i < frame->count && HEADER_BYTES + 8 * (i + 1) <= frame->size; i++) {
    uint64_t offset;
    memcpy(&offset, frame->bytes + HEADER_BYTES + 8 * i, 8);
    if (channel->has_memory) region_give(&channel->outputs, offset);
  }
}

// What only changes facts happens at once, whoever reads. The rest waits for the thread of the channel.
static void dispatch(Channel *channel, Frame *frame) {
  switch (frame->kind) {
    case TO_CANCEL: exchange_cancel(channel, frame->id); break;
    case TO_TAKEN: exchange_taken(channel, frame->id, frame->count); break;
    case TO_FREE_OUTPUTS: free_outputs(channel, frame); break;
    case TO_REPLY: keep_reply(channel, frame); break;
    default:
      pthread_mutex_lock(&channel->state);
      if (channel->last_task == NULL) channel->tasks = frame;
      else channel->last_task->next = frame;
      channel->last_task = frame;
      pthread_mutex_unlock(&channel->state);
      return;
  }
  frame_release(frame);
}

// Cuts the received bytes into frames. A frame that is not whole is filled by the reads that follow.
static void take_frames(Channel *channel) {
  char *at = channel->received;
  size_t left = channel->received_bytes;
  while (left >= HEADER_BYTES) {
    Frame *frame = frame_new(at);
    size_t bytes = frame->size < left ? frame->size : left;
    memcpy(frame->bytes, at, bytes);
    at += bytes;
    left -= bytes;
    if (bytes < frame->size) {
      channel->partial = frame;
      channel->partial_bytes = bytes;
    } else dispatch(channel, frame);
  }
  memmove(channel->received, at, left);
  channel->received_bytes = left;
}

// One read. False when nothing came: the connection has ended, or `flags` forbid to wait.
static bool read_once(Channel *channel, int flags) {
  Frame *partial = channel->partial;
  char *target = partial == NULL ? channel->received + channel->received_bytes : partial->bytes + channel->partial_bytes;
  size_t room = partial == NULL ? RECEIVE_BYTES - channel->received_bytes : partial->size - channel->partial_bytes;
  ssize_t bytes;
  do bytes = recv(channel->fd, target, room, flags);
  while (bytes < 0 && errno == EINTR);
  if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (bytes <= 0) {
    pthread_mutex_lock(&channel->state);
    channel->is_closed = true;
    pthread_mutex_unlock(&channel->state);
    return false;
  }
  if (partial == NULL) {
    channel->received_bytes += (size_t)bytes;
    take_frames(channel);
  } else if ((channel->partial_bytes += (size_t)bytes) == partial->size) {
    channel->partial = NULL;
    dispatch(channel, partial);
  }
  return true;
}

// With the state lock held, which it lets go while it reads.
static void read_for_all(Channel *channel) {
  channel->is_reading = true;
  pthread_mutex_unlock(&channel->state);
  read_once(channel, 0);
  pthread_mutex_lock(&channel->state);
  channel->is_reading = false;
  if (channel->waiters > 0) pthread_cond_broadcast(&channel->progress);
}

// With the state lock held.
static void wait_or_read(Channel *channel) {
  if (!channel->is_reading) {
    read_for_all(channel);
    return;
  }
  channel->waiters++;
  pthread_cond_wait(&channel->progress, &channel->state);
  channel->waiters--;
}

Frame *channel_next(Channel *channel) {
  channel_flush(channel);
  pthread_mutex_lock(&channel->state);
  if (channel->tasks == NULL) channel->cancelled_early.size = 0;
  while (channel->tasks == NULL && !channel->is_closed) wait_or_read(channel);
  Frame *frame = channel->tasks;
  if (frame != NULL) {
    channel->tasks = frame->next;
    if (channel->tasks == NULL) channel->last_task = NULL;
  }
  // Another thread may wait for a frame that it must now read itself.
  if (channel->waiters > 0) pthread_cond_broadcast(&channel->progress);
  pthread_mutex_unlock(&channel->state);
  return frame;
}

bool channel_wait(Channel *channel, bool (*is_done)(void *argument), void *argument) {
  channel_flush(channel);
  pthread_mutex_lock(&channel->state);
  while (!is_done(argument) && !channel->is_closed) wait_or_read(channel);
  bool is_open = !channel->is_closed;
  if (channel->waiters > 0) pthread_cond_broadcast(&channel->progress);
  pthread_mutex_unlock(&channel->state);
  return is_open;
}

void channel_poll(Channel *channel) {
  pthread_mutex_lock(&channel->state);
  uint64_t now = now_ns();
  bool is_due = !channel->is_reading && !channel->is_closed && now - channel->polled_ns >= POLL_EVERY_NS;
  if (is_due) {
    channel->polled_ns = now;
    channel->is_reading = true;
  }
  pthread_mutex_unlock(&channel->state);
  if (!is_due) return;
  while (read_once(channel, MSG_DONTWAIT)) continue;
  pthread_mutex_lock(&channel->state);
  channel->is_reading = false;
  if (channel->waiters > 0) pthread_cond_broadcast(&channel->progress);
  pthread_mutex_unlock(&channel->state);
}

// ---- writing

static void write_all(Channel *channel, struct iovec *parts, int count) {
  // A thread of the backend speaks for an instance that has ended. Nobody listens.
  if (channel->fd < 0) return;
  while (count > 0) {
    ssize_t written = writev(channel->fd, parts, count);
    if (written < 0 && errno == EINTR) continue;
    // The server is gone, and with it everybody who waits for answers.
    if (written < 0) _exit(0);
    while (count > 0 && (size_t)written >= parts->iov_len) {
      written -= (ssize_t)parts->iov_len;
      parts++;
      count--;
    }
    if (count > 0) {
      parts->iov_base = (char *)parts->iov_base + written;
      parts->iov_len -= (size_t)written;
    }
  }
}

// With the write lock held.
static void add_frame(Channel *channel, uint16_t kind, uint16_t count, uint64_t id, const void *body, size_t bytes) {
  Text *text = &channel->deferred;
  channel->last_deferred = text->size;
  uint32_t size = (uint32_t)align_to(HEADER_BYTES + bytes, 16);
  text_add(text, &size, 4);
  text_add(text, &kind, 2);
  text_add(text, &count, 2);
  text_add(text, &id, 8);
  text_add(text, body, bytes);
  text_pad(text, 16);
}

static void add_freed(Channel *channel) {
  if (channel->freed_count == 0) return;
  uint16_t count = (uint16_t)channel->freed_count;
  add_frame(channel, FROM_FREE_INPUTS, count, 0, channel->freed, sizeof *channel->freed * count);
  channel->freed_count = 0;
}

void channel_defer(Channel *channel, uint16_t kind, uint16_t count, uint64_t id, const void *body, size_t bytes) {
  pthread_mutex_lock(&channel->write);
  add_frame(channel, kind, count, id, body, bytes);
  pthread_mutex_unlock(&channel->write);
}

// The last frame that waits, where it is of this kind and takes another record; else NULL.
static char *open_frame(Channel *channel, uint16_t kind) {
  if (channel->deferred.size == 0) return NULL;
  char *frame = channel->deferred.bytes + channel->last_deferred;
  uint16_t found, count;
  memcpy(&found, frame + 4, 2);
  memcpy(&count, frame + 6, 2);
  return found == kind && count < MOST_RECORDS ? frame : NULL;
}

void channel_defer_record(Channel *channel, uint16_t kind, const void *record, size_t bytes) {
  pthread_mutex_lock(&channel->write);
  char *frame = open_frame(channel, kind);
  if (frame == NULL) add_frame(channel, kind, 1, 0, record, bytes);
  else {
    uint32_t size;
    uint16_t count;
    memcpy(&size, frame, 4);
    memcpy(&count, frame + 6, 2);
    size += (uint32_t)bytes;
    count++;
    memcpy(frame, &size, 4);
    memcpy(frame + 6, &count, 2);
    text_add(&channel->deferred, record, bytes);
  }
  pthread_mutex_unlock(&channel->write);
}

void channel_send(Channel *channel, uint16_t kind, uint16_t count, uint64_t id, const void *body, size_t bytes) {
  channel_defer(channel, kind, count, id, body, bytes);
  channel_flush(channel);
}

void channel_send_text(Channel *channel, uint16_t kind, uint64_t id, const char *text, size_t bytes) {
  Text body = {0};
  uint64_t length = bytes;
  text_add(&body, &length, 8);
  text_add(&body, text, bytes);
  channel_send(channel, kind, 0, id, body.bytes, body.size);
  text_free(&body);
}

void channel_flush(Channel *channel) {
  pthread_mutex_lock(&channel->write);
  add_freed(channel);
  if (channel->deferred.size > 0) {
    struct iovec part = {channel->deferred.bytes, channel->deferred.size};
    write_all(channel, &part, 1);
    channel->deferred.size = 0;
  }
  pthread_mutex_unlock(&channel->write);
}

void channel_free_input(Channel *channel, uint64_t offset) {
  pthread_mutex_lock(&channel->write);
  if (channel->freed_count == MOST_FREED) add_freed(channel);
  channel->freed[channel->freed_count++] = offset;
  pthread_mutex_unlock(&channel->write);
}

void writer_begin(Writer *writer) {
  static const char header[HEADER_BYTES];
  writer->head.size = writer->data.size = 0;
  writer->record_count = 0;
  text_add(&writer->head, header, sizeof header);
}

void writer_send(Channel *channel, Writer *writer, uint16_t kind, uint16_t count, uint64_t id) {
  text_pad(&writer->head, 16);
  text_pad(&writer->data, 16);
  char *head = writer->head.bytes;
  for (size_t i = 0; i < writer->record_count; i++) {
    uint64_t offset;
    memcpy(&offset, head + writer->records[i] + 8, 8);
    offset += writer->head.size;
    memcpy(head + writer->records[i] + 8, &offset, 8);
  }
  uint32_t size = (uint32_t)(writer->head.size + writer->data.size);
  memcpy(head, &size, 4);
  memcpy(head + 4, &kind, 2);
  memcpy(head + 6, &count, 2);
  memcpy(head + 8, &id, 8);
  pthread_mutex_lock(&channel->write);
  add_freed(channel);
  struct iovec parts[] = {{channel->deferred.bytes, channel->deferred.size}, {head, writer->head.size},
    {writer->data.bytes, writer->data.size}};
  write_all(channel, parts, writer->data.size > 0 ? 3 : 2);
  channel->deferred.size = 0;
  pthread_mutex_unlock(&channel->write);
}

// ---- questions

typedef struct { Channel *channel; uint64_t id; Reply *reply; } Question;

static bool has_reply(void *argument) {
  Question *question = argument;
  for (Reply **at = &question->channel->replies; *at != NULL; at = &(*at)->next) {
    if ((*at)->id != question->id) continue;
    question->reply = *at;
    *at = (*at)->next;
    return true;
  }
  return false;
}

Json *channel_ask(Channel *channel, Text *text) {
  Question question = {channel, 0, NULL};
  pthread_mutex_lock(&channel->state);
  question.id = channel->next_call++;
  pthread_mutex_unlock(&channel->state);
  channel_send_text(channel, FROM_CALL, question.id, text->bytes, text->size);
  channel_wait(channel, has_reply, &question);
  if (question.reply == NULL) return NULL;
  Json *value = question.reply->value;
  free(question.reply);
  return value;
}

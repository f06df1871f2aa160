// Custom metrics of backends. The series live in the server; the host keeps the last value of each, for a backend that asks.
#include <stdlib.h>
#include "host.h"

struct TRITONSERVER_MetricFamily { TRITONSERVER_MetricKind kind; char *name; };
struct TRITONSERVER_MetricArgs { double *buckets; uint64_t count; bool is_histogram; };
struct TRITONSERVER_Metric { TRITONSERVER_MetricKind kind; uint64_t id; pthread_mutex_t lock; double value; };

static const char *const kind_names[] = {"counter", "gauge", "histogram"};

// What the server answered; an error for the backend when it refused.
static Error *ask(Channel *channel, Text *question, Json **reply) {
  *reply = channel == NULL ? NULL : channel_ask(channel, question);
  text_free(question);
  if (*reply == NULL) return fail(TRITONSERVER_ERROR_UNAVAILABLE, "the server does not answer");
  const char *error = json_text(*reply, "error", NULL);
  if (error == NULL) return NULL;
  Error *failure = fail(TRITONSERVER_ERROR_INVALID_ARG, "%s", error);
  json_free(*reply);
  *reply = NULL;
  return failure;
}

Error *TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily **family, TRITONSERVER_MetricKind kind, const char *name,
    const char *description) {
  *family = NULL;
  if ((size_t)kind > TRITONSERVER_METRIC_KIND_HISTOGRAM)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "pass in a metric kind that exists: %d does not", (int)kind);
  Text question = {0};
  text_print(&question, "{\"method\":\"createFamily\",\"kind\":\"%s\",\"name\":", kind_names[kind]);
  text_json_string(&question, name);
  text_print(&question, ",\"description\":");
  text_json_string(&question, description == NULL ? "" : description);
  text_add(&question, "}", 1);
  Json *reply;
  Error *error = ask(current_channel(), &question, &reply);
  if (error != NULL) return error;
  json_free(reply);
  *family = allocate(sizeof **family);
  (*family)->kind = kind;
  (*family)->name = copy_text(name, strlen(name));
  return NULL;
}

Error *TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily *family) {
  free(family->name);
  free(family);
  return NULL;
}

Error *TRITONSERVER_GetMetricFamilyKind(TRITONSERVER_MetricFamily *family, TRITONSERVER_MetricKind *kind) {
  *kind = family->kind;
  return NULL;
}

Error *TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs **args) {
  *args = allocate(sizeof **args);
  return NULL;
}

Error *TRITONSERVER_MetricArgsSetHistogram(TRITONSERVER_MetricArgs *args, const double *buckets, uint64_t buckets_count) {
  free(args->buckets);
  args->buckets = allocate(sizeof *buckets * buckets_count);
  if (buckets_count > 0) memcpy(args->buckets, buckets, sizeof *buckets * buckets_count);
  args->count = buckets_count;
  args->is_histogram = true;
  return NULL;
}

Error *TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs *args) {
  free(args->buckets);
  free(args);
  return NULL;
}

static void add_labels(Text *question, const TRITONSERVER_Parameter **labels, uint64_t count) {
  text_print(question, ",\"labels\":{");
  for (uint64_t i = 0; i < count; i++) {
    if (i > 0) text_add(question, ",", 1);
    text_json_string(question, labels[i]->name);
    text_add(question, ":", 1);
    text_json_string(question, labels[i]->text == NULL ? "" : labels[i]->text);
  }
  text_add(question, "}", 1);
}

Error *TRITONSERVER_MetricNewWithArgs(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
    const TRITONSERVER_Parameter **labels, uint64_t label_count, const TRITONSERVER_MetricArgs *args) {
  *metric = NULL;
  bool is_histogram = family->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM;
  if (is_histogram != (args != NULL && args->is_histogram))
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "%s", is_histogram ? "Bucket boundaries must be set for a histogram."
      : "Bucket boundaries are for histograms only.");
  for (uint64_t i = 0; i < label_count; i++)
    if (!pool_lives(&parameter_pool, labels[i]) || labels[i]->type != TRITONSERVER_PARAMETER_STRING)
      return fail(TRITONSERVER_ERROR_INVALID_ARG, "a label of a metric must be a parameter of type STRING");
  Text question = {0};
  text_print(&question, "{\"method\":\"createMetric\",\"family\":");
  text_json_string(&question, family->name);
  add_labels(&question, labels, label_count);
  text_print(&question, ",\"buckets\":%s", is_histogram ? "[" : "null}");
  for (uint64_t i = 0; is_histogram && i < args->count; i++) text_print(&question, "%s%.17g", i == 0 ? "" : ",", args->buckets[i]);
  if (is_histogram) text_add(&question, "]}", 2);
  Json *reply;
  Error *error = ask(current_channel(), &question, &reply);
  if (error != NULL) return error;
  TRITONSERVER_Metric *made = allocate(sizeof *made);
  made->kind = family->kind;
  made->id = (uint64_t)json_integer(reply, "result", 0);
  pthread_mutex_init(&made->lock, NULL);
  json_free(reply);
  *metric = made;
  return NULL;
}

Error *TRITONSERVER_MetricNew(TRITONSERVER_Metric **metric, TRITONSERVER_MetricFamily *family,
    const TRITONSERVER_Parameter **labels, uint64_t label_count) {
  return TRITONSERVER_MetricNewWithArgs(metric, family, labels, label_count, NULL);
}

static void tell(TRITONSERVER_Metric *metric, uint32_t operation, double value) {
  char body[12];
  memcpy(body, &operation, 4);
  memcpy(body + 4, &value, 8);
  // The series belong to the host, so any channel can tell of them.
  Channel *channel = current_channel();
  if (channel == NULL) return;
  channel_defer(channel, FROM_METRIC, 0, metric->id, body, sizeof body);
  // From a thread of the backend's own nothing may follow that would take the frame along.
  if (current_execution(channel) == NULL) channel_flush(channel);
}

Error *TRITONSERVER_MetricDelete(TRITONSERVER_Metric *metric) {
  tell(metric, METRIC_REMOVE, 0);
  free(metric);
  return NULL;
}

static Error *unsupported(TRITONSERVER_Metric *metric, const char *what) {
  static const char *const names[] = {"COUNTER", "GAUGE", "HISTOGRAM"};
  return fail(TRITONSERVER_ERROR_UNSUPPORTED, "TRITONSERVER_METRIC_KIND_%s does not support %s", names[metric->kind], what);
}

Error *TRITONSERVER_MetricValue(TRITONSERVER_Metric *metric, double *value) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM) return unsupported(metric, "Value");
  pthread_mutex_lock(&metric->lock);
  *value = metric->value;
  pthread_mutex_unlock(&metric->lock);
  return NULL;
}

Error *TRITONSERVER_MetricIncrement(TRITONSERVER_Metric *metric, double value) {
  if (metric->kind == TRITONSERVER_METRIC_KIND_HISTOGRAM) return unsupported(metric, "Increment");
  if (metric->kind == TRITONSERVER_METRIC_KIND_COUNTER && value < 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG,
      "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative values.");
  pthread_mutex_lock(&metric->lock);
  metric->value += value;
  pthread_mutex_unlock(&metric->lock);
  tell(metric, METRIC_INCREMENT, value);
  return NULL;
}

Error *TRITONSERVER_MetricSet(TRITONSERVER_Metric *metric, double value) {
  if (metric->kind != TRITONSERVER_METRIC_KIND_GAUGE) return unsupported(metric, "Set");
  pthread_mutex_lock(&metric->lock);
  metric->value = value;
  pthread_mutex_unlock(&metric->lock);
  tell(metric, METRIC_SET, value);
  return NULL;
}

Error *TRITONSERVER_MetricObserve(TRITONSERVER_Metric *metric, double value) {
  if (metric->kind != TRITONSERVER_METRIC_KIND_HISTOGRAM) return unsupported(metric, "Observe");
  tell(metric, METRIC_OBSERVE, value);
  return NULL;
}

Error *TRITONSERVER_GetMetricKind(TRITONSERVER_Metric *metric, TRITONSERVER_MetricKind *kind) {
  *kind = metric->kind;
  return NULL;
}

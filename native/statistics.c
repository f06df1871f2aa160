// The times that a backend reports. The server uses the differences: its clock has another beginning.
#include "host.h"

struct TRITONBACKEND_ModelInstanceResponseStatistics {
  PoolObject head;
  TRITONBACKEND_ModelInstance *instance;
  Exchange *exchange;
  uint64_t start, output_start, end;
  bool is_error;
};

Pool statistics_pool = POOL(TRITONBACKEND_ModelInstanceResponseStatistics, 0x53544130);

#define REQUIRE_STATISTICS(each) if (!pool_lives(&statistics_pool, each)) return fail_stale(each, "set of response statistics")

static void send_times(Exchange *exchange, bool success, uint64_t start, uint64_t input_end, uint64_t output_start, uint64_t end) {
  uint64_t record[] = {exchange->handle, start, input_end, output_start, end, success ? 0 : TIMED_FAILED};
  _Static_assert(sizeof record == TIMED_BYTES, "the record is as the server reads it");
  channel_defer_record(exchange->channel, FROM_TIMED, record, sizeof record);
}

Error *TRITONBACKEND_ModelInstanceReportStatistics(TRITONBACKEND_ModelInstance *instance, TRITONBACKEND_Request *request,
    bool success, uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns) {
  (void)instance;
  if (!pool_lives(&request_pool, request)) return fail_stale(request, "request");
  send_times(request->exchange, success, exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns);
  return NULL;
}

// The server made the batch and knows its size. Triton counts an execution only where the backend reports it.
Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(TRITONBACKEND_ModelInstance *instance, uint64_t batch_size,
    uint64_t exec_start_ns, uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns) {
  (void)batch_size;
  uint64_t record[] = {0, exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns, TIMED_BATCH};
  if (instance->channel != NULL) channel_defer_record(instance->channel, FROM_TIMED, record, sizeof record);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceResponseStatisticsNew(TRITONBACKEND_ModelInstanceResponseStatistics **statistics) {
  *statistics = pool_take(&statistics_pool);
  (*statistics)->instance = NULL;
  (*statistics)->exchange = NULL;
  (*statistics)->start = (*statistics)->output_start = (*statistics)->end = 0;
  (*statistics)->is_error = false;
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceResponseStatisticsDelete(TRITONBACKEND_ModelInstanceResponseStatistics *statistics) {
  REQUIRE_STATISTICS(statistics);
  if (statistics->exchange != NULL) exchange_release(statistics->exchange);
  statistics->exchange = NULL;
  pool_give(&statistics_pool, statistics);
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
    TRITONBACKEND_ModelInstanceResponseStatistics *statistics, TRITONBACKEND_ModelInstance *model_instance) {
  REQUIRE_STATISTICS(statistics);
  statistics->instance = model_instance;
  return NULL;
}

Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    TRITONBACKEND_ModelInstanceResponseStatistics *statistics, TRITONBACKEND_ResponseFactory *response_factory) {
  REQUIRE_STATISTICS(statistics);
  if (!pool_lives(&factory_pool, response_factory)) return fail_stale(response_factory, "response factory");
  if (statistics->exchange != NULL) exchange_release(statistics->exchange);
  exchange_use(response_factory->exchange);
  statistics->exchange = response_factory->exchange;
  return NULL;
}

#define SET_TIME(function, field) \
  Error *function(TRITONBACKEND_ModelInstanceResponseStatistics *statistics, uint64_t time) { \
    REQUIRE_STATISTICS(statistics); \
    statistics->field = time; \
    return NULL; \
  }
SET_TIME(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart, start)
SET_TIME(TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart, output_start)
SET_TIME(TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd, end)

Error *TRITONBACKEND_ModelInstanceResponseStatisticsSetError(TRITONBACKEND_ModelInstanceResponseStatistics *statistics,
    TRITONSERVER_Error *error) {
  REQUIRE_STATISTICS(statistics);
  statistics->is_error = error != NULL;
  return NULL;
}

// The server counts the responses themselves. Only that everything was set is checked, as Triton does.
Error *TRITONBACKEND_ModelInstanceReportResponseStatistics(TRITONBACKEND_ModelInstanceResponseStatistics *statistics) {
  REQUIRE_STATISTICS(statistics);
  if (statistics->instance == NULL || statistics->exchange == NULL || statistics->start == 0 || statistics->end == 0)
    return fail(TRITONSERVER_ERROR_INVALID_ARG, "response statistics need a model instance, a response factory, and both times");
  return NULL;
}

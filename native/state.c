#include "host.h"
Pool state_pool = POOL(TRITONBACKEND_Output, 0x53540030);
void states_configure(TRITONBACKEND_Model *model, const Json *settings) { (void)model; (void)settings; }
void states_free(TRITONBACKEND_Model *model) { (void)model; }
Error *TRITONBACKEND_StateNew(TRITONBACKEND_State **state, TRITONBACKEND_Request *request, const char *name, TRITONSERVER_DataType datatype, const int64_t *shape, uint32_t dims_count) { (void)request;(void)name;(void)datatype;(void)shape;(void)dims_count; *state = NULL; return fail(TRITONSERVER_ERROR_UNSUPPORTED, "no implicit state"); }
Error *TRITONBACKEND_StateUpdate(TRITONBACKEND_State *state) { (void)state; return fail(TRITONSERVER_ERROR_UNSUPPORTED, "no implicit state"); }
Error *TRITONBACKEND_StateBuffer(TRITONBACKEND_State *state, void **buffer, uint64_t n, TRITONSERVER_MemoryType *t, int64_t *i) { (void)state;(void)buffer;(void)n;(void)t;(void)i; return fail(TRITONSERVER_ERROR_UNSUPPORTED, "no implicit state"); }
Error *TRITONBACKEND_StateBufferAttributes(TRITONBACKEND_State *state, TRITONSERVER_BufferAttributes **a) { (void)state;(void)a; return fail(TRITONSERVER_ERROR_UNSUPPORTED, "no implicit state"); }

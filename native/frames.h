// The wire format between the server and this host: the numbers of src/backends/worker-process/frames.ts. A test compares both.
#ifndef GALATEA_FRAMES_H
#define GALATEA_FRAMES_H

// Server to host.
#define TO_EXECUTE 1
#define TO_CANCEL 2
#define TO_FREE_OUTPUTS 3
#define TO_REPLY 5
#define TO_COMPLETE_CONFIG 6
#define TO_INITIALIZE 7
#define TO_FINALIZE 8
#define TO_TRIM 9
#define TO_TAKEN 10
#define TO_PING 11

// Host to server.
#define FROM_HELLO 32
#define FROM_CONFIG_COMPLETED 33
#define FROM_INITIALIZED 34
#define FROM_START_FAILED 35
#define FROM_EXECUTED 36
#define FROM_RESPONSE 38
#define FROM_FREE_INPUTS 39
#define FROM_CALL 42
#define FROM_METRIC 43
#define FROM_LOG 44
#define FROM_READINESS 45
#define FROM_SKIPPED 46
#define FROM_RESCHEDULE 47
#define FROM_PONG 48
#define FROM_TIMED 49
#define FROM_ACTIVITY 50

// A frame: size, kind, count, id; then its body, padded to a multiple of 16 bytes.
#define HEADER_BYTES 16
// A request in an execute frame: handle, correlation id, timeout in µs, flags, bytes of id, bytes of a textual correlation
// id, inputs, requested outputs, bytes of the parameters' JSON. Its tensors follow, then the texts, then padding to 8.
#define REQUEST_HEAD_BYTES 40
#define REQUEST_SEQUENCE_START 1
#define REQUEST_SEQUENCE_END 2
#define REQUEST_TEXT_CORRELATION 4
#define REQUEST_ALL_OUTPUTS 8
#define REQUEST_IS_CANCELLED 16
#define REQUEST_TRACED 32
// A response: handle, outputs, flags, error code, bytes of text (the error, or the parameters as JSON).
#define RESPONSE_HEAD_BYTES 16
#define RESPONSE_FINAL 1
#define RESPONSE_ERROR 2
#define RESPONSE_PARAMETERS 4
#define RESPONSE_FLAG_ONLY 8
// A tensor: name (its place in the model's table, or NAMED), type, rank, place, offset, bytes; then the dims.
#define TENSOR_HEAD_BYTES 24
#define TENSOR_NAMED 0xffff
#define TENSOR_INLINE 0
#define TENSOR_SHARED 1
// The times of one request: handle, start, end of the inputs, start of the outputs, end, flags.
#define TIMED_BYTES 48
#define TIMED_FAILED 1
// The record is of the whole batch, and names no request.
#define TIMED_BATCH 2

#define METRIC_INCREMENT 0
#define METRIC_SET 1
#define METRIC_OBSERVE 2
#define METRIC_REMOVE 3

#endif

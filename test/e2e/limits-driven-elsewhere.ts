// Limits that another test drives over the edge, by the first cell of the row in docs/reference/limits.md.

/** A test that drives the limit, and words of that test. */
export type DrivenElsewhere = { readonly file: string; readonly says: string }

const elsewhere = (file: string, says: string): DrivenElsewhere => ({ file, says })

export const limitsDrivenElsewhere: Readonly<Record<string, DrivenElsewhere>> = {
  'bytes of the parameters of an answer, and of the error, of a model in a process': elsewhere(
    'src/backends/worker-process/response-record.test.ts',
    'more than 4 MiB are an error',
  ),
  'loads and unloads of one model that wait': elsewhere(
    'src/engine/lifecycle/change-queue.test.ts',
    'at most 32 of them wait',
  ),
  'remarks on the configuration and the folder of a model that are logged': elsewhere(
    'src/repository/model-repository.test.ts',
    'there are 979 more remarks like these',
  ),
  'lines of a label file': elsewhere('src/repository/labels.test.ts', 'more lines than classes are ranked'),
  'numbered files of traces (`log_frequency`); characters that wait for one; bytes that the disk has not taken':
    elsewhere('src/telemetry/tracer.test.ts', 'at most 10,000 numbered files'),
  'batch sizes that the statistics of a version tell apart': elsewhere(
    'src/telemetry/statistics.test.ts',
    'all others count as the next power of two',
  ),
  'classes of an answer whose class is looked for, for feedback and drift': elsewhere(
    'src/rollouts/prediction.test.ts',
    'of more classes than are compared',
  ),
  'inputs and answers of finished requests that wait for an earlier one (`preserve_ordering`)': elsewhere(
    'src/scheduling/response-order.test.ts',
    'hold too many bytes keep further requests out',
  ),
  'windows of a rollout in which each metric is judged, beside the whole rollout': elsewhere(
    'src/rollouts/judge/judge-rollout.test.ts',
    'keeps a bounded number of later starts',
  ),
  'requests that a native backend holds at the same time': elsewhere(
    'test/e2e/native-host.test.ts',
    'keeps a hundred thousand requests',
  ),
  "pinned memory, and memory of a GPU, that a native backend takes from Triton's memory manager": elsewhere(
    'test/e2e/native-backends.test.ts',
    'gets pinned memory and memory of a GPU, up to a limit, and the blocks that it gave back',
  ),
  'memory shared with a host of native backends, for inputs and for outputs': elsewhere(
    'test/e2e/native-backends.test.ts',
    'of the memory that it shares with the server',
  ),
  'characters of `sampling_parameters`; stop texts, characters of one, stop tokens, biased tokens, alternatives of a token':
    elsewhere('src/llm/sampling-parameters.test.ts', 'a million stop texts'),
  'time of the processor that a grammar or JSON schema takes for one token; that the engine of a GGUF model takes without an answer':
    elsewhere('src/backends/llamacpp/engine/grammar-filter.test.ts', 'at most 1000 are allowed'),
  'characters of a grammar or JSON schema; brackets inside each other, repetitions of repetitions; depth, rules and choices of a schema':
    elsewhere('src/llm/grammar-of-schema.test.ts', 'repeats more than 2000 times'),
  'tokens of a prompt, and characters for each token of the context': elsewhere(
    'test/scenario/generation-engine.test.ts',
    'takes at most 1024',
  ),
  'texts of one request of the task `embed`': elsewhere(
    'src/backends/llamacpp/engine-order.test.ts',
    'at most 2048 texts',
  ),
  'documents of one request of the task `rerank`': elsewhere(
    'src/backends/llamacpp/engine-order.test.ts',
    'at most 1024 documents',
  ),
  'keys, tensors, dimensions and texts in lists that a GGUF file names; bytes of a key, of a text, and of all keys and texts':
    elsewhere('src/llm/gguf-file.test.ts', 'at most 65536 are read'),
  'rules of `--actions`, alerts in one call, and characters of a label': elsewhere(
    'src/alerts/alert-desk.test.ts',
    'at most 1000 are taken',
  ),
  'lists and objects of a JSON body of control and of the OpenAI API, and how deep they lie': elsewhere(
    'src/base/json-form.test.ts',
    'more than 65536 lists',
  ),
  'bytes, and lists and objects, of the body of a job; lists and objects of one line': elsewhere(
    'test/e2e/jobs.test.ts',
    'more than 500000 lists and objects',
  ),
  'messages of a Redis stream that a job reads together': elsewhere(
    'src/jobs/redis-channel.test.ts',
    'then by more while they are small',
  ),
  'batches of the OpenAI API that wait to be checked, one at a time': elsewhere(
    'src/jobs/openai-batches.test.ts',
    '256 batches wait to be checked',
  ),
  'jobs that write one file, or write a file that another one reads': elsewhere(
    'src/jobs/file-claims.test.ts',
    'is written by no other job',
  ),
  'bytes of a line that is a call of the OpenAI API, in a job or a batch; lists and objects of one of a batch':
    elsewhere('test/e2e/openai/batches.test.ts', 'deeper than 256 levels'),
  'instances of a model that follow its load, and the share of memory above which none is added': elsewhere(
    'src/scaling/instance-scaler.test.ts',
    'a whole number from 1 to 1024',
  ),
  'jobs that are kept, and those that run at the same time': elsewhere(
    'src/jobs/job-control.test.ts',
    '16 jobs run at the same time, 1000 are kept',
  ),
  'files for batches of the OpenAI API, their bytes together, their age': elsewhere(
    'src/jobs/batch-files.test.ts',
    'keeps at most 3 files',
  ),
  'batches of the OpenAI API that are kept, and their age': elsewhere(
    'src/jobs/batch-files.test.ts',
    '2 batches are under way, which is the most',
  ),
  'parts of a file that a job writes to a cloud, bytes of a part': elsewhere(
    'src/jobs/cloud-output.test.ts',
    'more than 10000 bytes, which is the most',
  ),
  'files that a cloud lists for one pattern': elsewhere(
    'src/jobs/file-input.test.ts',
    'which is the most that can be read',
  ),
  'texts beside a batch or a response (`metadata`), characters of each, batches or files of one page': elsewhere(
    'test/e2e/openai/batches.test.ts',
    'at most 16 texts',
  ),
  'lines in the body of a job': elsewhere('src/jobs/job-plan.test.ts', 'at most 100000 items'),
  'lines of a job under way, attempts of one line, characters of a name': elsewhere(
    'src/jobs/job-plan.test.ts',
    'must be a whole number from 1 to 1024',
  ),
  'bytes of one line of a job; of its id; blanks of an empty line': elsewhere(
    'src/jobs/job-run.test.ts',
    'has more than 67108864 bytes',
  ),
  'bytes of lines and answers of a job that wait to be written': elsewhere(
    'src/jobs/job-run.test.ts',
    'answers that wait are bounded',
  ),
  'files that one job reads': elsewhere('src/jobs/file-input.test.ts', 'names more than 100000 files'),
  'bytes of answers that the server keeps for a job, and for all of them': elsewhere(
    'src/jobs/file-input.test.ts',
    'which is the most that the server keeps',
  ),
  'servers of a fleet': elsewhere('src/fleet/fleet-watch.test.ts', 'servers beyond --max-members are left out'),
  'Envoys of one control plane, resources that one of them names': elsewhere(
    'src/fleet/fleet-bounds.test.ts',
    '1024 Envoys may be connected',
  ),
  'characters of the names of resources of one Envoy, of all Envoys; refusals of Envoys in the log': elsewhere(
    'src/fleet/fleet-bounds.test.ts',
    'have more than 2097152 characters',
  ),
  'requests that the picker looks at together; bytes of a body that it looks at, its pieces, and bytes of all bodies that it holds':
    elsewhere('src/fleet/fleet-bounds.test.ts', 'the picker keeps 64 KiB'),
  'sequences whose server the picker remembers': elsewhere(
    'src/fleet/endpoint-picker.test.ts',
    '100000 are remembered',
  ),
  "bytes of the file of servers, of the list of a server's models": elsewhere(
    'src/fleet/fleet-bounds.test.ts',
    'more than 8 MiB',
  ),
  'streams of load reports (`OpenRcaService`)': elsewhere('test/e2e/load-reports.test.ts', 'more than 256 streams'),
  'bytes of a credential in `Authorization` or `x-api-key`': elsewhere(
    'src/access/access-admission.test.ts',
    'a credential of more than 8 KiB is refused',
  ),
  'wrong credentials of one address': elsewhere(
    'src/access/access-admission.test.ts',
    'after 20 wrong credentials in a minute',
  ),
  'bytes of the body of a call of the OpenAI API': elsewhere(
    'src/protocol/openai/generation-request.test.ts',
    '--openai-max-request-bytes',
  ),
  'choices, prompts and probabilities of a call of the OpenAI API': elsewhere(
    'src/protocol/openai/generation-request.test.ts',
    '257 entries, at most 256',
  ),
  'stop strings, logit biases, schemas, grammars and choices of a call of the OpenAI API': elsewhere(
    'src/protocol/openai/generation-request.test.ts',
    '1000000 entries, at most 32',
  ),
  'messages, parts and tools of a chat': elsewhere(
    'src/protocol/openai/generation-request.test.ts',
    '4097 entries, at most 4096',
  ),
  'inputs of embeddings, and documents of rerank': elsewhere(
    'src/protocol/openai/generation-request.test.ts',
    '2049 entries, at most 2048',
  ),
  'chat templates': elsewhere(
    'src/frontends/openai/chat-templates.test.ts',
    'a template that never ends, or takes all memory, hurts only its own request',
  ),
  'answers of an upstream (backend `openai`)': elsewhere(
    'src/backends/openai/upstream-instance.test.ts',
    'an upstream that sends too much or nothing that can be read',
  ),
  'requests of one instance of a router that are under way': elsewhere(
    'src/backends/router/router-instance.test.ts',
    'with 1,024 requests under way the next batch waits until one has ended',
  ),
  'inferences of one call of the OpenAI API that run at once': elsewhere(
    'test/e2e/openai/openai.test.ts',
    'more choices than run at once',
  ),
  'chunks of a chunked HTTP body': elsewhere('test/conformance/http-transport.test.ts', '65536 chunks are the limit'),
  'values of the body of `:classify` and `:regress` (TensorFlow Serving)': elsewhere(
    'test/conformance/tfserving.test.ts',
    'more than 65536 values',
  ),
  'tasks of a MultiInferenceRequest; bytes of a context of examples, once for each example': elsewhere(
    'src/protocol/tfserving/serving-request.test.ts',
    '256 tasks are the most',
  ),
  'fields and values of all examples of a call over gRPC (TensorFlow Serving), bytes of their names in one example':
    elsewhere('src/protocol/tfserving/example-inputs.test.ts', 'more than 2097152 fields'),
  'fields in the shape of a TensorProto': elsewhere(
    'src/protocol/tfserving/tensor-proto-reader.test.ts',
    'its shape has more than 1024 fields',
  ),
  'bytes of a tensor that a TensorProto fills from fewer elements': elsewhere(
    'src/protocol/tfserving/tensor-proto-reader.test.ts',
    'a shape that is larger than the limit is refused before memory is taken',
  ),
  'classes in one answer of Classify': elsewhere(
    'src/protocol/tfserving/example-results.test.ts',
    'a million classes are the most',
  ),
  'pixels of an uploaded picture': elsewhere('test/conformance/upload.test.ts', 'a picture bomb before it is decoded'),
  'pictures that wait to be decoded, and the time of one': elsewhere(
    'test/conformance/upload.test.ts',
    '256 pictures wait',
  ),
  'pixels of pictures that are in memory at the same time': elsewhere(
    'src/frontends/upload/picture-process.test.ts',
    'take the memory of two',
  ),
  'time without an answer of the process that decodes pictures': elsewhere(
    'src/frontends/upload/picture-process.test.ts',
    'gave no answer for 60 s',
  ),
  'samples of an uploaded sound, as it is and at the rate of the model': elsewhere(
    'test/conformance/upload.test.ts',
    'at most 16777216 are taken',
  ),
  'scans of a progressive JPEG': elsewhere('test/conformance/upload.test.ts', 'more than 100 scans'),
  'blocks of a GIF before the end of its first picture': elsewhere(
    'test/conformance/upload.test.ts',
    'more than 1048576 blocks',
  ),
  'bytes of the compressed texts in a PNG, and its chunks': elsewhere(
    'test/conformance/upload.test.ts',
    'bytes of compressed texts',
  ),
  'names of rollouts, and pins, in one Redis; bytes of the record of one rollout; feedback in one message': elsewhere(
    'src/releases/shared-values.test.ts',
    'longestSharedText',
  ),
  'elements of an output that the answer to an upload tells': elsewhere(
    'test/conformance/upload.test.ts',
    'at most 262144 are told',
  ),
  'classes that the answer to an upload lists': elsewhere('test/conformance/upload.test.ts', "got '1001'"),
  'fields of a form': elsewhere('test/e2e/torchserve.test.ts', 'a form of more than 1000 fields'),
  'entries and list of a TorchServe archive': elsewhere(
    'src/repository/cloud/unpack-zip.test.ts',
    'more than 5 entries',
  ),
  'bytes of a TorchServe archive': elsewhere('src/repository/cloud/unpack-zip.test.ts', 'too many bytes'),
  'requests that wait for a TorchServe handler, and its time': elsewhere(
    'test/e2e/torchserve.test.ts',
    'a handler that takes longer than its time is ended',
  ),
  "versions and workers of a model that TorchServe's API registered": elsewhere(
    'test/e2e/torchserve.test.ts',
    '257 workers are refused',
  ),
  'versions that are gone and whose failures are told by metrics': elsewhere(
    'src/telemetry/model-ledger.test.ts',
    'of versions that are gone the last thousand are remembered',
  ),
  'characters of what a registration of TorchServe or a load of SageMaker says of a model': elsewhere(
    'test/e2e/torchserve.test.ts',
    'Parameter url has more than 4096 characters',
  ),
  'TorchServe archives that are unpacked at a time': elsewhere(
    'src/frontends/torchserve/torchserve-models.test.ts',
    'of which there are four at a time',
  ),
  'headers that a TorchServe handler sets': elsewhere(
    'src/protocol/torchserve/torch-request.test.ts',
    'a handler cannot write into the head of the answer',
  ),
  "models on one page of TorchServe's list": elsewhere(
    'test/fixtures/torchserve/cases.ts',
    'a limit that is no number',
  ),
  'bytes of a structured CloudEvent (KServe v1)': elsewhere(
    'test/conformance/kserve1.test.ts',
    'a CloudEvent gets an event back, binary or structured',
  ),
  'folders of an archive that SageMaker loads': elsewhere(
    'test/e2e/cloud-front-ends.test.ts',
    'an archive of 257 folders is refused',
  ),
  'loads and unloads by SageMaker that wait for their turn': elsewhere(
    'src/frontends/sagemaker/sagemaker-models.test.ts',
    'of loads and unloads that come one after the other 256 wait',
  ),
  "models outside the repositories: those of SageMaker and of TensorFlow Serving's configuration": elsewhere(
    'src/repository/mapped-folders.test.ts',
    '10000 models are the most',
  ),
  'bytes of all texts in a gRPC message': elsewhere(
    'src/protobuf/protobuf-reader.test.ts',
    'texts of a message have a limit together',
  ),
  'values of a JSON body that is kept as a document': elsewhere(
    'src/protocol/json-document.test.ts',
    'a document of too many values is refused',
  ),
  'classes of one row that are ranked, and classes of all rows that are listed': elsewhere(
    'src/protocol/classification.test.ts',
    'ranking a million classes is many short steps, and classes of all rows together have a limit',
  ),
  'bytes of an FP32 input that becomes FP64 for scikit-learn and LightGBM': elsewhere(
    'src/model/validate-request.test.ts',
    'which is widened up to a MiB',
  ),
  'bytes that a sparse answer of scikit-learn takes as an array': elsewhere(
    'test/e2e/frameworks/check_estimators.py',
    'a sparse answer that would fill the memory',
  ),
  'inputs of one request in shared memory': elsewhere(
    'src/engine/shared-memory/shared-memory-registry.test.ts',
    'nothing is read, and no memory taken',
  ),
  'CUDA graphs of an instance': elsewhere(
    'src/backends/onnx/native/gpu-runner.test.ts',
    'a shape is recorded when it comes again, has one number and one address, and a failed recording ends it all',
  ),
  "share of a GPU's memory that is used when a model is loaded on it": elsewhere(
    'src/engine/serving/gpu-load-limit.test.ts',
    'a model is refused on a GPU whose memory is used above the limit, and on no other',
  ),
  'regions of shared memory': elsewhere(
    'src/engine/shared-memory/shared-memory-registry.test.ts',
    'the number of regions is bounded',
  ),
  'models with paths of their own in `/v2/openapi.json`': elsewhere(
    'src/protocol/openapi.test.ts',
    'of thousands of models two hundred have paths of their own',
  ),
  'entries of one page of the registry': elsewhere(
    'src/protocol/registry-query.test.ts',
    'a limit that makes no sense',
  ),
  'requests of one gRPC connection': elsewhere(
    'src/transport/client-memory.test.ts',
    'a connection is full at its share of requests',
  ),
  'gRPC messages above 64 KiB that arrive at the same time': elsewhere(
    'src/transport/message-turns.test.ts',
    'as many messages arrive at a time as the share allows',
  ),
  'gRPC messages above 64 KiB that wait for their turn': elsewhere(
    'src/transport/message-turns.test.ts',
    'beginnings of messages that wait hold a quarter of the budget at most',
  ),
  'unread answers of one gRPC connection': elsewhere(
    'src/transport/client-memory.test.ts',
    'or of unread answers; under pressure sooner',
  ),
  'clients that read feeds (`/v2/live`, `/v2/logs?follow=true`, `/v2/rollouts/{name}/events`) at a time': elsewhere(
    'test/e2e/feeds.test.ts',
    'the 65th reader is refused',
  ),
  'unread events of one feed': elsewhere('test/e2e/feeds.test.ts', 'readers that stall cost no more than a MiB each'),
  'log lines that are kept for readers': elsewhere('src/base/log-history.test.ts', 'keeps the newest 5000 lines'),
  'traced requests that are kept for readers': elsewhere(
    'src/telemetry/trace-history.test.ts',
    'the newest 200 are kept',
  ),
  'versions with live figures, and with an hour of them': elsewhere(
    'src/telemetry/figure-sampler.test.ts',
    'the first 500 versions have figures, the first 50 a history',
  ),
  'servers of one Redis that `/v2/fleet` shows, and models of each': elsewhere(
    'test/e2e/rollout-servers.test.ts',
    'at most 256 servers are kept',
  ),
  'characters of a query parameter of a feed': elsewhere(
    'test/e2e/feeds.test.ts',
    'a query that is too long is refused',
  ),
  'unread events of one `generate_stream`': elsewhere('test/e2e/slow-readers.test.ts', 'stops reading'),
  'inflated bodies of all requests': elsewhere(
    'src/transport/client-memory.test.ts',
    'and the next ones wait for that',
  ),
  'bytes per second of an HTTP body that is not whole, over the longest pause': elsewhere(
    'test/conformance/http-transport.test.ts',
    'a body that comes byte by byte gets 408 with the least rate and its flag',
  ),
  'bytes per second of a gRPC message that is not whole, over the longest pause': elsewhere(
    'test/conformance/unread-clients.test.ts',
    'a message that comes byte by byte is ended, one that comes at the least rate is not',
  ),
  'time an HTTP client may take less than 4 KiB of its answers': elsewhere(
    'test/conformance/http-streaming.test.ts',
    'a client that never reads is given up after --http-write-idle-timeout-secs',
  ),
  'work begun in one turn of the event loop, of all connections and protocols': elsewhere(
    'src/base/turn-budget.test.ts',
    'what comes at once beyond the budget is done in later turns, in order',
  ),
  'bytes read in one turn of the event loop from all connections without TLS, but for those of large bodies': elsewhere(
    'src/transport/lent-buffer-socket.test.ts',
    'has the event loop for a bounded piece of what it sends',
  ),
  'pipelined requests in one turn of the event loop': elsewhere(
    'test/conformance/http-transport.test.ts',
    'pipelined requests are answered in their order',
  ),
  'an ONNX run on the main thread': elsewhere('src/backends/onnx/execution-place.test.ts', 'the limit'),
  'JSON of at least 256 KiB, read by threads': elsewhere(
    'src/ports/http/json-offload.test.ts',
    'what waits is bounded in bytes',
  ),
  'one execution of a model': elsewhere(
    'test/e2e/worker-limits.test.ts',
    '--model-max-execution-secs ends an execution',
  ),
  "one request to TensorFlow Serving's REST API": elsewhere(
    'test/e2e/tfserving/tfserving-command.test.ts',
    "a link of the program's name",
  ),
  'pause before a worker starts again': elsewhere(
    'src/backends/supervised-instance.test.ts',
    'a worker that served is replaced at once',
  ),
  'time of an exit after SIGTERM': elsewhere('test/e2e/cli-shutdown.test.ts', '--exit-timeout-secs'),
  'time without a sign of life of a worker, with `--live-check=compute`': elsewhere(
    'src/engine/live-check.test.ts',
    'no sign of life for longer than the timeout',
  ),
  'connections of all ports together': elsewhere(
    'src/transport/listener.test.ts',
    'the connections of all ports share the slots',
  ),
  'age of a gRPC connection': elsewhere(
    'test/conformance/grpc-frontend.test.ts',
    'a connection of age is told to leave',
  ),
  'requests of an [overload](../guide/overload.md) that wait': elsewhere(
    'test/scenario/overload.test.ts',
    'no more requests of an overload wait than can run within the target',
  ),
  'wait of a request that came before an overload, while the overload lasts': elsewhere(
    'test/scenario/overload.test.ts',
    'an overload that lasts refuses those who came before it after 30 s',
  ),
  'runs of a request whose batch failed': elsewhere('test/e2e/isolated-failures.test.ts', 'run once at most'),
  'memory of all models': elsewhere('src/engine/lifecycle/model-lifecycle.test.ts', 'a model larger than the limit'),
  'time a model may be without a request': elsewhere('src/engine/lifecycle/model-lifecycle.test.ts', 'idle'),
  'models that load at the same time': elsewhere(
    'src/engine/lifecycle/model-lifecycle.test.ts',
    'no more models load at a time',
  ),
  'files of a model downloaded from cloud storage that no server uses': elsewhere(
    'src/repository/cloud/blob-cache.test.ts',
    'the least recently used files go first',
  ),
  'answers in the response cache': elsewhere('src/model/response-cache.test.ts', 'evictionCount'),
  'threads that read and write large JSON of the SageMaker, the Vertex AI, the TensorFlow Serving and the TorchServe ports':
    elsewhere('src/ports/http/json-offload.test.ts', 'large jobs of one client do not delay the small ones of others'),
}

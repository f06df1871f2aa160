// The constants of the server that are named as bounds, by the row of docs/reference/limits.md that tells of them. A new constant needs a line
// here and a row there when a client can reach the bound, or a line in constants-apart.ts.

/** `file name` of constants, by the limit in the first cell of their row. */
export const constantsOfRows: Readonly<Record<string, readonly string[]>> = {
  'bytes of the parameters of an answer, and of the error, of a model in a process': [
    'backends/worker-process/response-record.ts mostParameterBytes',
    'backends/worker-process/response-record.ts mostErrorBytes',
  ],
  'loads and unloads of one model that wait': ['engine/lifecycle/change-queue.ts mostWaitingChanges'],
  'lines of a label file': ['repository/labels.ts mostLabelLines'],
  'numbered files of traces (`log_frequency`); characters that wait for one; bytes that the disk has not taken': [
    'telemetry/trace-file.ts mostTraceFiles',
    'telemetry/trace-sampler.ts mostGatheredChars',
    'telemetry/trace-file.ts mostUnwrittenBytes',
  ],
  'batch sizes that the statistics of a version tell apart': ['telemetry/statistics.ts mostBatchSizes'],
  'classes of an answer whose class is looked for, for feedback and drift': ['rollouts/prediction.ts mostClasses'],
  'inputs and answers of finished requests that wait for an earlier one (`preserve_ordering`)': [
    'scheduling/response-order.ts mostDoneBytes',
  ],
  'rules of `--actions`, alerts in one call, and characters of a label': [
    'alerts/alert-plan.ts mostRules',
    'alerts/alert-desk.ts mostAlerts',
    'alerts/alert-desk.ts longestLabel',
  ],
  'lists and objects of a JSON body of control and of the OpenAI API, and how deep they lie': [
    'base/json-form.ts mostJsonContainers',
    'base/json-form.ts mostMembers',
  ],
  'bytes, and lists and objects, of the body of a job; lists and objects of one line': [
    'frontends/jobs/job-endpoints.ts mostJobBodyBytes',
    'jobs/job-body.ts mostJobContainers',
    'jobs/job-line.ts mostLineContainers',
  ],
  'bytes of a line that is a call of the OpenAI API, in a job or a batch; lists and objects of one of a batch': [
    'jobs/job-line.ts mostCallContainers',
  ],
  'instances of a model that follow its load, and the share of memory above which none is added': [
    'config/scale-limits.ts mostScaledInstances',
    'scaling/growth-obstacle.ts mostMemoryShare',
  ],
  'jobs that are kept, and those that run at the same time': [
    'jobs/job-control.ts mostJobs',
    'jobs/job-control.ts mostRunningJobs',
  ],
  'files for batches of the OpenAI API, their bytes together, their age': [
    'jobs/batch-files.ts mostBatchFiles',
    'jobs/batch-files.ts mostBatchFileBytes',
    'jobs/batch-files.ts longestFileAgeMs',
  ],
  'batches of the OpenAI API that wait to be checked, one at a time': ['jobs/openai-batches.ts mostWaitingBatches'],
  'batches of the OpenAI API that are kept, and their age': ['jobs/batch-files.ts mostBatchRecords'],
  'texts beside a batch or a response (`metadata`), characters of each, batches or files of one page': [
    'protocol/openai/request-metadata.ts mostMetadata',
    'protocol/openai/request-metadata.ts longestMetadataText',
    'frontends/openai/batch-endpoints.ts largestPage',
  ],
  'CUDA graphs of an instance': ['backends/onnx/native/gpu-graphs.ts mostGraphs'],
  'lines in the body of a job': ['jobs/job-plan.ts mostInlineLines'],
  'lines of a job under way, attempts of one line, characters of a name': [
    'jobs/job-plan.ts mostJobConcurrency',
    'jobs/job-plan.ts mostAttempts',
    'jobs/job-plan.ts longestName',
  ],
  'bytes of one line of a job; of its id; blanks of an empty line': [
    'jobs/job-line.ts longestLineBytes',
    'jobs/job-line.ts longestBlankBytes',
    'jobs/scan-line.ts longestText',
  ],
  'messages of a Redis stream that a job reads together': [
    'jobs/redis-channel.ts mostRead',
    'jobs/redis-channel.ts mostReadBytes',
  ],
  'bytes of lines and answers of a job that wait to be written': ['jobs/job-run.ts mostHeldJobBytes'],
  'files that one job reads': ['jobs/file-input.ts mostInputFiles'],
  'parts of a file that a job writes to a cloud, bytes of a part': ['jobs/cloud-output.ts mostUploadParts'],
  'files that a cloud lists for one pattern': ['job-cloud.ts mostListed'],
  'bytes of answers that the server keeps for a job, and for all of them': [
    'jobs/job-store.ts mostKeptOutputBytes',
    'jobs/job-store.ts mostKeptTogetherBytes',
  ],
  'Envoys of one control plane, resources that one of them names': [
    'fleet/ads-service.ts mostStreams',
    'fleet/ads-stream.ts mostNames',
  ],
  'characters of the names of resources of one Envoy, of all Envoys; refusals of Envoys in the log': [
    'fleet/ads-stream.ts mostNameBytes',
    'fleet/ads-stream.ts mostNameBytesTogether',
  ],
  'requests that the picker looks at together; bytes of a body that it looks at, its pieces, and bytes of all bodies that it holds':
    [
      'fleet/picker-service.ts mostRequests',
      'fleet/picker-service.ts mostHeadBytes',
      'fleet/picker-service.ts mostHeldPieces',
      'fleet/picker-service.ts mostHeldBytes',
    ],
  'sequences whose server the picker remembers': ['fleet/endpoint-picker.ts mostSequences'],
  "bytes of the file of servers, of the list of a server's models": [
    'fleet/member-source.ts mostFileBytes',
    'fleet/ask-member.ts mostIndexBytes',
  ],
  'streams of load reports (`OpenRcaService`)': ['frontends/orca/orca-service.ts mostStreams'],
  'characters of a grammar or JSON schema; brackets inside each other, repetitions of repetitions; depth, rules and choices of a schema':
    ['llm/require-grammar.ts mostNested', 'llm/require-grammar.ts mostRepeated'],
  'time of the processor that a grammar or JSON schema takes for one token; that the engine of a GGUF model takes without an answer':
    ['backends/llamacpp/engine/grammar-filter.ts mostMsPerToken'],
  'tokens of a prompt, and characters for each token of the context': [
    'backends/llamacpp/engine/require-text-length.ts mostBytesPerToken',
  ],
  'texts of one request of the task `embed`': ['backends/llamacpp/engine-order.ts mostInputs'],
  'documents of one request of the task `rerank`': ['backends/llamacpp/engine-order.ts mostDocuments'],
  'entries of one call of feedback': ['rollouts/feedback.ts mostPerCall'],
  'labels of a model': ['releases/version-labels.ts mostLabels'],
  'windows of a rollout in which each metric is judged, beside the whole rollout': [
    'rollouts/judge/later-starts.ts mostStartsBack',
  ],
  'steps, rules and metrics of a rollout': [
    'rollouts/read-steps.ts maxSteps',
    'rollouts/read-rules.ts maxRules',
    'rollouts/read-metrics.ts maxMetrics',
  ],
  'time that a fault is in force, and its delay': [
    'rollouts/fault-book.ts longestNs',
    'rollouts/fault-book.ts longestDelayMs',
    'rollouts/envoy-fault.ts longestDelayMs',
  ],
  'bytes of an HTTP body, as sent and decompressed': ['ports/http/http-options.ts largestBodyBytes'],
  'bytes of an HTTP body without tensors or models': ['ports/http/http-port.ts mostControlBytes'],
  'chunks of a chunked HTTP body': ['transport/http1/body-collector.ts mostPieces'],
  'line ends before an HTTP request': ['transport/http1/http-connection.ts mostLineEnds'],
  'bytes of a gRPC message with tensors or models, also after decompression': [
    'transport/grpc/http2-call.ts largestMessageBytes',
  ],
  'bytes of every other gRPC message, also after decompression': ['transport/grpc/http2-call.ts mostControlBytes'],
  'bytes of the headers of a gRPC call': [
    'transport/http2/server-preface.ts maxHeaderListBytes',
    'transport/http2/frame-rules.ts maxHeaderBlockBytes',
    'transport/http2/header-blocks.ts mostFrames',
    'transport/http2/hpack-decoder.ts mostExcess',
  ],
  'growth of a compressed request above 4 MiB': ['transport/inflate-queue.ts mostInflatedPerByte'],
  'bytes of a correlation id': [
    'protocol/grpc/infer-request-fields.ts longestCorrelationBytes',
    'protocol/infer-request-reader.ts maxCorrelationIdLength',
  ],
  'digits of a number in a text (versions, trace settings)': ['base/leading-integer.ts mostDigits'],
  'classes of one row that are ranked, and classes of all rows that are listed': [
    'protocol/classification.ts maxClasses',
  ],
  'bytes of a credential in `Authorization` or `x-api-key`': ['access/credential.ts longestCredential'],
  'wrong credentials of one address': ['access/failure-limit.ts mostFailures'],
  'regions of shared memory': ['engine/shared-memory/shared-memory-registry.ts mostRegions'],
  'models with paths of their own in `/v2/openapi.json`': ['protocol/openapi.ts mostDescribed'],
  'entries of one page of the registry': ['protocol/registry-query.ts maxLimit'],
  'values of the body of `:classify` and `:regress` (TensorFlow Serving)': [
    'protocol/tfserving/example-json.ts mostValues',
  ],
  'tasks of a MultiInferenceRequest; bytes of a context of examples, once for each example': [
    'protocol/tfserving/serving-request.ts mostTasks',
    'protocol/tfserving/serving-request.ts mostContextBytes',
  ],
  'classes in one answer of Classify': ['protocol/tfserving/example-results.ts mostClasses'],
  'pictures that wait to be decoded, and the time of one': [
    'frontends/upload/picture-decoder.ts mostWaiting',
    'frontends/upload/prepare-picture.ts longestDecodeSecs',
  ],
  'pixels of pictures that are in memory at the same time': ['frontends/upload/prepare-picture.ts mostPixelsTogether'],
  'time without an answer of the process that decodes pictures': [
    'frontends/upload/picture-process.ts longestAnswerSecs',
  ],
  'fields and values of all examples of a call over gRPC (TensorFlow Serving), bytes of their names in one example': [
    'protocol/tfserving/example-inputs.ts mostExampleFields',
    'protocol/tfserving/example-inputs.ts mostExampleTextBytes',
  ],
  'fields in the shape of a TensorProto': ['protocol/tfserving/tensor-proto-reader.ts mostShapeFields'],
  'scans of a progressive JPEG': ['protocol/upload/jpeg-file.ts mostScans'],
  'blocks of a GIF before the end of its first picture': ['protocol/upload/gif-file.ts mostBlocks'],
  'bytes of the compressed texts in a PNG, and its chunks': [
    'frontends/upload/picture-decoder.ts mostPackedTextBytes',
    'protocol/upload/png-file.ts mostChunks',
  ],
  'samples of an uploaded sound, as it is and at the rate of the model': [
    'protocol/upload/wave-file.ts mostSamples',
    'protocol/upload/wave-file.ts mostChunks',
    'protocol/upload/wave-file.ts mostChannels',
  ],
  'elements of an output that the answer to an upload tells': [
    'protocol/upload/upload-answer.ts mostElements',
    'protocol/upload/upload-answer.ts mostTextBytes',
  ],
  'classes that the answer to an upload lists': ['protocol/upload/upload-request.ts mostTopK'],
  'fields of a form': [
    'protocol/form-fields.ts mostFormFields',
    'protocol/form-fields.ts mostPartHeadBytes',
    'protocol/form-fields.ts mostUrlencodedBytes',
    'protocol/upload/upload-request.ts mostFieldBytes',
  ],
  'entries and list of a TorchServe archive': [
    'repository/cloud/unpack-zip.ts mostListBytes',
    'repository/torchserve/torch-archive.ts mostArchiveEntries',
  ],
  'bytes of a TorchServe archive': [
    'repository/cloud/unpack-archive.ts mostBytesAroundEntry',
    'repository/torchserve/torch-archive.ts mostManifestBytes',
    'repository/torchserve/torch-archive.ts mostNameLength',
  ],
  "versions and workers of a model that TorchServe's API registered": [
    'frontends/torchserve/torchserve-models.ts mostVersions',
    'frontends/torchserve/torchserve-models.ts mostWorkers',
  ],
  'characters of what a registration of TorchServe or a load of SageMaker says of a model': [
    'frontends/sagemaker/sagemaker-models.ts mostNameChars',
    'frontends/torchserve/torchserve-management.ts mostFieldChars',
  ],
  'TorchServe archives that are unpacked at a time': ['frontends/torchserve/torchserve-models.ts mostUnpacking'],
  'headers that a TorchServe handler sets': ['protocol/torchserve/torch-request.ts mostAnswerHeaders'],
  "models on one page of TorchServe's list": ['frontends/torchserve/torchserve-management.ts mostListed'],
  'choices, prompts and probabilities of a call of the OpenAI API': [
    'protocol/openai/generation-request.ts mostChoices',
    'protocol/openai/generation-request.ts mostChatLogprobs',
    'protocol/openai/generation-request.ts mostCompletionLogprobs',
    'protocol/openai/generation-request.ts mostPrompts',
    'protocol/openai/generation-request.ts mostAnswers',
    'protocol/openai/generation-request.ts mostPromptTokens',
    'protocol/openai/embedding-request.ts mostTokens',
    'frontends/openai/generation-call.ts mostKeptLogprobs',
    'frontends/openai/generation-call.ts mostLogprobsOfPiece',
  ],
  'stop strings, logit biases, schemas, grammars and choices of a call of the OpenAI API': [
    'protocol/openai/sampling-parameters.ts mostStopStrings',
    'protocol/openai/sampling-parameters.ts longestStopString',
    'protocol/openai/sampling-parameters.ts mostStopTokens',
    'protocol/openai/sampling-parameters.ts mostLogitBiases',
    'protocol/openai/sampling-parameters.ts mostGrammarBytes',
    'protocol/openai/sampling-parameters.ts mostChoices',
    'protocol/openai/sampling-parameters.ts largestToken',
  ],
  'messages, parts and tools of a chat': [
    'protocol/openai/chat-messages.ts mostMessages',
    'protocol/openai/chat-messages.ts mostParts',
    'protocol/openai/chat-messages.ts mostTools',
    'protocol/openai/responses-request.ts mostItems',
  ],
  'inputs of embeddings, and documents of rerank': [
    'protocol/openai/embedding-request.ts mostInputs',
    'protocol/openai/embedding-request.ts mostDocuments',
    'protocol/openai/embedding-request.ts mostDimensions',
  ],
  'chat templates': [
    'frontends/openai/chat-templates.ts longestTemplate',
    'frontends/openai/chat-templates.ts mostThreads',
    'frontends/openai/template-worker.ts longestPrompt',
  ],
  'answers of an upstream (backend `openai`)': [
    'backends/openai/upstream-instance.ts mostAnswerBytes',
    'backends/openai/upstream-instance.ts mostEventBytes',
    'backends/openai/upstream-instance.ts mostErrorBytes',
  ],
  'requests of one instance of a router that are under way': ['backends/router/router-instance.ts mostUnderWay'],
  'inferences of one call of the OpenAI API that run at once': ['frontends/openai/openai-call.ts mostAtOnce'],
  'bytes of a structured CloudEvent (KServe v1)': [
    'frontends/kserve1/cloud-event.ts mostStructuredBytes',
    'frontends/kserve1/cloud-event.ts mostMembers',
  ],
  'folders of an archive that SageMaker loads': ['frontends/sagemaker/sagemaker-models.ts mostFolders'],
  'loads and unloads by SageMaker that wait for their turn': ['frontends/sagemaker/sagemaker-models.ts mostWaiting'],
  "models outside the repositories: those of SageMaker and of TensorFlow Serving's configuration": [
    'repository/mapped-folders.ts mostMappedModels',
  ],
  'gRPC messages above 64 KiB that arrive at the same time': [
    'transport/message-turns.ts mostArrivingBytes',
    'transport/message-turns.ts mostBusyLooks',
  ],
  'unread answers of one gRPC connection': [
    'transport/client-memory.ts mostUnreadBytes',
    'transport/client-memory.ts mostUnreadBytesUnderPressure',
  ],
  'clients that read feeds (`/v2/live`, `/v2/logs?follow=true`, `/v2/rollouts/{name}/events`) at a time': [
    'ports/http/event-readers.ts mostReaders',
  ],
  'unread events of one feed': ['ports/http/event-readers.ts mostUnreadBytes'],
  'log lines that are kept for readers': [
    'base/log-history.ts mostEntries',
    'base/log-history.ts mostBytes',
    'base/log-history.ts longestMessage',
    'base/log-history.ts mostOfFailedModel',
    'base/log-history.ts mostFailedModels',
    'frontends/feeds/feed-endpoints.ts mostLines',
  ],
  'traced requests that are kept for readers': [
    'telemetry/trace-history.ts mostTraces',
    'telemetry/trace-history.ts mostRecords',
    'frontends/feeds/feed-endpoints.ts longestTraceMs',
  ],
  'versions that are gone and whose failures are told by metrics': ['telemetry/model-ledger.ts mostGone'],
  'versions with live figures, and with an hour of them': [
    'telemetry/figure-sampler.ts mostVersions',
    'telemetry/live-figures.ts mostHistories',
  ],
  'names of rollouts, and pins, in one Redis; bytes of the record of one rollout; feedback in one message': [
    'releases/redis-rollouts.ts mostShared',
    'releases/shared-values.ts longestSharedText',
    'releases/shared-values.ts mostHeardEntries',
  ],
  'servers of one Redis that `/v2/fleet` shows, and models of each': [
    'releases/redis-rollouts.ts mostServers',
    'releases/redis-rollouts.ts longestSaid',
    'releases/redis-rollouts.ts mostSaidBytes',
    'releases/shared-values.ts mostPresenceModels',
    'releases/shared-values.ts mostPresenceVersions',
    'describe-server.ts mostModelsTold',
    'describe-server.ts longestReason',
  ],
  'characters of a query parameter of a feed': ['frontends/feeds/feed-query.ts longestValue'],
  'unread events of one `generate_stream`': [
    'exchange/send-piece.ts mostUnreadBytes',
    'exchange/inference-exchange.ts mostBehindBytes',
  ],
  'requests that wait for a model': ['engine/serving/load-version.ts mostWaitingRequests'],
  'wait of a request that came before an overload, while the overload lasts': [
    'scheduling/queue-guard.ts longestBacklogWaitNs',
  ],
  'requests of one gRPC stream under way': ['frontends/v2-grpc/model-stream-infer.ts mostUnderWay'],
  'messages without an answer on one gRPC connection, inferences and loads apart': [
    'transport/grpc/http2-call.ts mostUnanswered',
  ],
  'inflated bodies of all requests': ['transport/inflate-queue.ts mostInflating'],
  'work begun in one turn of the event loop, of all connections and protocols': ['base/turn-budget.ts mostUnits'],
  'bytes read in one turn of the event loop from all connections without TLS, but for those of large bodies': [
    'transport/read-pace.ts mostBytes',
  ],
  'pipelined requests in one turn of the event loop': ['transport/http1/http-connection.ts mostPerTurn'],
  'an ONNX run on the main thread': ['backends/onnx/execution-place.ts mostSizes'],
  'JSON of at least 256 KiB, read by threads': ['ports/http/json-offload.ts mostShortBytes'],
  'calls at a time on one gRPC connection': ['transport/http2/server-preface.ts maxConcurrentStreams'],
  'remarks on the configuration and the folder of a model that are logged': ['repository/hints.ts mostHints'],
  'characters, and lists and objects, of the configuration in a load request': [
    'protocol/model-config-json.ts mostConfigContainers',
  ],
  'instances of a model, all groups and devices together': ['config/validate-amounts.ts mostInstances'],
  'places for sequences: `max_batch_size` or `max_candidate_sequences` × instances': [
    'config/validate-amounts.ts mostSlots',
  ],
  'bytes of a state at the start of a sequence; rows of a warm-up sample; executions, rows and bytes of all samples': [
    'config/validate-amounts.ts mostStateBytes',
    'config/validate-amounts.ts mostWarmUpRows',
    'config/validate-amounts.ts mostWarmUpRuns',
    'config/validate-amounts.ts mostWarmUpRowsTogether',
    'config/validate-amounts.ts mostWarmUpBytes',
    'engine/serving/warm-up.ts maxTensorBytes',
    'engine/serving/warm-up.ts mostStrings',
  ],
  'time without a sign of life of a worker, with `--live-check=compute`': ['engine/live-check.ts mostBetweenBeatsMs'],
}

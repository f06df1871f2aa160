// The messages of TorchServe's gRPC services, as tables.

import { schemaFinder, type MessageRows } from '../../protobuf/message-schema.ts'
import { messageCodec } from '../grpc/message-codec.ts'

const modelOf = ['string model_name = 1', 'string model_version = 2'] as const

/** The fields that this server reads and writes; others of a request are skipped. */
const rows: MessageRows = {
  Empty: [],
  TorchServeHealthResponse: ['string health = 1'],
  PredictionsRequest: [...modelOf, 'map<string, bytes> input = 3', 'string sequence_id = 4'],
  PredictionResponse: ['bytes prediction = 1', 'string sequence_id = 2', 'Status status = 3'],
  Status: ['int32 code = 1', 'string message = 2'],
  ManagementResponse: ['string msg = 1'],
  DescribeModelRequest: modelOf,
  SetDefaultRequest: modelOf,
  UnregisterModelRequest: modelOf,
  ScaleWorkerRequest: [...modelOf, 'int32 max_worker = 3', 'int32 min_worker = 4', 'bool synchronous = 6'],
  ListModelsRequest: ['int32 limit = 1', 'int32 next_page_token = 2'],
  RegisterModelRequest: [
    'int32 batch_size = 1',
    'string handler = 2',
    'int32 initial_workers = 3',
    'int32 max_batch_delay = 4',
    'string model_name = 5',
    'int32 response_timeout = 6',
    'string runtime = 7',
    'bool synchronous = 8',
    'string url = 9',
  ],
}

export const torchCodec = messageCodec(schemaFinder(rows, {}))

// The paths of the OpenAI API in the OpenAPI document. Its own documents describe every member.

import {
  anyObject,
  jsonContent,
  modelParameter,
  object,
  operation,
  pathParameter,
  text,
  type Json,
  type JsonObject,
} from './openapi-parts.ts'

const error = object(['error'], {
  error: object(['message', 'type'], {
    message: text,
    type: text,
    param: { type: ['string', 'null'] },
    code: { type: ['string', 'null'] },
  }),
})

const failure = (description: string): JsonObject => ({ description, content: jsonContent(error) })

const failures: JsonObject = {
  '400': failure('A member of the request is wrong: `param` names it'),
  '404': failure('No such model'),
  '429': failure('A limit of the caller is reached'),
  '500': failure('The model failed'),
  '503': failure('The model or server is not ready, or its queue is full'),
}

const streamed: Json = { 'text/event-stream': { schema: text }, ...jsonContent(anyObject) }

const call = (
  id: string,
  summary: string,
  required: readonly string[],
  answer: Json = jsonContent(anyObject),
): JsonObject => ({
  post: {
    ...operation(id, 'model', `${summary}; not with --openai=false`, {
      '200': { description: 'The answer', content: answer },
      ...failures,
    }),
    requestBody: {
      required: true,
      content: jsonContent(object(required, Object.fromEntries(required.map((name) => [name, {}])))),
    },
  },
})

const absent = (id: string, summary: string): JsonObject =>
  operation(id, 'model', `${summary}; not with --openai=false`, { '501': failure('Why not') })

/** Files of calls and of answers. */
function batchPaths(): JsonObject {
  const done = (id: string, summary: string, answer: JsonObject = jsonContent(anyObject)): JsonObject =>
    operation(id, 'model', `${summary}; needs --allow-jobs=true`, {
      '200': { description: 'Done', content: answer },
      '501': failure('The server runs no jobs'),
      ...failures,
    })
  const form = object(['purpose', 'file'], {
    purpose: text,
    file: { type: 'string', contentMediaType: 'application/jsonl' },
  })
  const upload = { required: true, content: { 'multipart/form-data': { schema: form } } }
  const [file, batch] = [[pathParameter('file')], [pathParameter('batch')]]
  return {
    '/v1/files': {
      get: done('openAiFiles', 'The files of batches'),
      post: { ...done('openAiUpload', 'Upload a file of calls'), requestBody: upload },
    },
    '/v1/files/{file}': {
      parameters: file,
      get: done('openAiFile', 'What a file is'),
      delete: done('openAiDeleteFile', 'Delete a file'),
    },
    '/v1/files/{file}/content': {
      parameters: file,
      get: done('openAiFileContent', 'The bytes of a file', { 'application/octet-stream': {} }),
    },
    '/v1/batches': {
      get: done('openAiBatches', 'Batches, newest first'),
      post: {
        ...done('openAiBatch', 'Run the calls of a file'),
        requestBody: {
          required: true,
          content: jsonContent(object(['input_file_id', 'endpoint', 'completion_window'], {})),
        },
      },
    },
    '/v1/batches/{batch}': { parameters: batch, get: done('openAiShowBatch', 'How far a batch is') },
    '/v1/batches/{batch}/cancel': { parameters: batch, post: done('openAiCancelBatch', 'End a batch') },
  }
}

export function openAiPaths(): JsonObject {
  const change = (id: string, summary: string): JsonObject => ({
    parameters: [modelParameter],
    post: operation(id, 'model', `${summary}; not with --openai=false`, {
      '200': { description: 'Done', content: jsonContent(anyObject) },
      ...failures,
    }),
  })
  return {
    '/v1/chat/completions': call('openAiChat', 'Answer a chat (OpenAI API)', ['model', 'messages'], streamed),
    '/v1/completions': call('openAiCompletion', 'Continue a text (OpenAI API)', ['model', 'prompt'], streamed),
    '/v1/responses': call('openAiResponse', 'Answer a chat (Responses API)', ['model', 'input'], streamed),
    '/v1/embeddings': call('openAiEmbeddings', 'A vector for each text (OpenAI API)', ['model', 'input']),
    '/v1/rerank': call('openAiRerank', 'How well documents fit a question', ['model', 'query', 'documents']),
    '/tokenize': call('openAiTokenize', 'The tokens of a text', ['model', 'prompt']),
    '/detokenize': call('openAiDetokenize', 'The text of tokens', ['model', 'tokens']),
    '/v1/audio/transcriptions': { post: absent('openAiTranscriptions', 'Speech is not written down here') },
    ...batchPaths(),
    '/v1/models/{model}/load': change('openAiLoad', "Load a model, as Triton's OpenAI front end"),
    '/v1/models/{model}/unload': change('openAiUnload', "Unload a model, as Triton's OpenAI front end"),
  }
}

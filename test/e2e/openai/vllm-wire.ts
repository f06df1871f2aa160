// What answers to the recorded calls of vLLM's own server are here: the same, but for what is listed.

import type { Replay } from './wire-cases.ts'

/** Members that are vLLM's own, or whose value differs on purpose. */
const apart: ReadonlySet<string> = new Set([
  // OpenAI's codes are words, vLLM repeats the status. `param` names a member more often here.
  '.error.code',
  '.error.param',
  // Of vLLM's engine, and of what it can compute beside text.
  'ec_transfer_params',
  'kv_transfer_params',
  'metrics',
  'prompt_logprobs',
  'prompt_text',
  'prompt_token_ids',
  'routed_experts',
  'stop_reason',
  'token_ids',
  'token_strs',
  '.results[].document.multi_modal',
  // Null in every answer of a model of text.
  'annotations',
  'audio',
  'function_call',
  'reasoning',
  'service_tier',
  // Members of its answers to embeddings, which OpenAI does not have.
  '.created',
  '.id',
  'completion_tokens_details',
  '.usage.completion_tokens',
  '.usage.prompt_tokens_details',
  // A router has no context of its own.
  '.data[].max_model_len',
  // The names of these members are tokens.
  '.choices[].logprobs.top_logprobs',
  '.data[].permission',
  '.data[].root',
  '.data[].parent',
])

/** The last text of a stream comes with the reason of the end there, as OpenAI has it in a piece of its own here. */
const apartInStreams = apart.union(new Set(['.choices[].delta.content', 'system_fingerprint', 'usage']))

/** Cases that are answered otherwise on purpose. */
const differs: Readonly<Record<string, string>> = {
  'chat stream: logprobs': "the last piece of a stream has no text and no probability here, as OpenAI's",
  'chat stream: top_logprobs 2': "the last piece of a stream has no text and no probability here, as OpenAI's",
  'completion stream: logprobs': "the last piece of a stream has no text and no probability here, as OpenAI's",
  'chat: named tool': "null here where there are calls, as OpenAI's; an empty text there",
  'chat: tools required': "null here where there are calls, as OpenAI's; an empty text there",
  'chat stream: usage with n 2': 'several greedy answers are the same ones here, and refused there',
  'completion: echo with logprobs': 'probabilities of the prompt are not computed here',
  'completion: echo alone': 'an answer has at least one token here',
  'completion: token ids': 'token ids are refused here: the model splits texts itself',
  'completion: lists of token ids': 'token ids are refused here: the model splits texts itself',
  'completion stream: token ids': 'token ids are refused here: the model splits texts itself',
  'completion: empty suffix': 'an empty suffix is none here',
  'chat: structured_outputs regex': 'regular expressions are refused here',
  'responses: text': "the answer has OpenAI's members here; vLLM has others, and null for settings",
  'responses: items': "the answer has OpenAI's members here; vLLM has others, and null for settings",
  'responses: parts': "the answer has OpenAI's members here; vLLM has others, and null for settings",
  'responses: instructions': "the answer has OpenAI's members here; vLLM has others, and null for settings",
  'responses: json_schema': "the answer has OpenAI's members here; vLLM has others, and null for settings",
  'responses: stream': "the answer has OpenAI's members here; vLLM has others, and null for settings",
  'bad responses: unknown previous': 'answers are not kept here: 400, not 404',
  'tokenize: chat': 'a chat is not split into tokens here',
  'tokenize: chat, no generation prompt': 'a chat is not split into tokens here',
  'tokenize: no model': 'there are several models here: one must be named',
  'bad chat: empty model': 'there are several models here: one must be named',
  'bad call: no model': 'there are several models here: one must be named',
  'bad detokenize: out of range': 'unknown tokens are refused here, and left out there',
  model: 'one model can be asked for here',
  'bad model: unknown': 'errors of paths have the form of FastAPI there',
  'bad call: GET': 'errors of paths have the form of FastAPI there',
  'bad call: unknown path': 'errors of paths have the form of FastAPI there',
  health: "these paths are vLLM's own",
  version: "these paths are vLLM's own",
  ping: "these paths are vLLM's own",
  load: "these paths are vLLM's own",
  score: "these paths are vLLM's own",
  'rerank: other path': "these paths are vLLM's own",
  'rerank: second path': "these paths are vLLM's own",
  'bad chat: temperature a number as text': 'numbers are no texts here',
  'bad completion: logprobs true': 'numbers are no texts here',
  'bad chat: top_p 0': "0 is within OpenAI's bounds",
  'bad chat: logit_bias 200': "OpenAI's bounds hold here",
  'bad completion: logprobs 6': "OpenAI's bounds hold here",
  'bad chat: unknown role': "OpenAI's roles are known here, any there",
  'bad chat: no content': "a message of a user has a content here, as OpenAI's",
  'bad chat: priority a text': 'ignored here',
  'bad chat: tools empty': 'the same as none here',
  'bad chat: tool_choice without tools': 'the same as none here',
  'bad completion: best_of 3': 'refused here, ignored there',
  'embeddings of a chat model': '400 here, because the model is for something else; no path there',
  'bad chat: max_tokens above the context': 'an answer ends where the context ends here',
  'embeddings: messages': 'a chat has no vector here',
  'embeddings: dimensions': 'every model shortens its vectors here',
}

export const vllmReplay: Replay = {
  folder: 'wire-vllm',
  models: { toy: 'small' },
  apart: (name) => (name.includes(' stream: ') ? apartInStreams : apart),
  differs,
}

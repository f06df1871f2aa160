// The OpenAI API, on the HTTP port and on a port of its own, where Triton has it.

import { openAiGroupNames } from '../access/openai-restrictions.ts'
import { flag, ours, repeatable } from './flag.ts'
import { boolean, formOf, integer, parseInteger, parseRestrictedApis, restrictedBy, text } from './flag-forms.ts'

const portOrNone = formOf('N|none', (name, given): number | null =>
  given === 'none' ? null : parseInteger(name, given, 0, 65_535),
)

/** Triton has three words: `inference,embedding KEY VALUE`. They may come as one. */
const parseOpenAiRestricted = (name: string, given: string): ReturnType<typeof parseRestrictedApis> =>
  parseRestrictedApis(name, given.replace(/^(\S+) (\S+) (\S+)$/, '$1:$2=$3'), openAiGroupNames)

export const openAiFlags = [
  flag('openai', boolean, 'true', { ...ours, tritonDefault: 'false' })
    .says('Serve the OpenAI API on the HTTP port: /v1/chat/completions and its kin')
    .to('http.hasOpenAi'),
  flag('openai-port', portOrNone, 'none', ours)
    .says("Port that has the OpenAI API alone, as Triton's OpenAI front end at 9000; none: only the HTTP port has it")
    .to('openAi.port'),
  flag('openai-address', text('ADDRESS'), '127.0.0.1', { ...ours, tritonDefault: '0.0.0.0' })
    .says('Address to listen on')
    .to('openAi.address'),
  flag('openai-restricted-api', formOf('API,API:KEY=VALUE', parseOpenAiRestricted), '', { ...ours, ...repeatable })
    .says(
      "Calls of the OpenAI API that answer only with the header KEY: VALUE, as Triton's flag: inference, embedding, model-repository, metrics, health",
    )
    .set('http.openAiRestrictedApis', (flags) =>
      restrictedBy('openai-restricted-api', flags.all('openai-restricted-api'), parseOpenAiRestricted),
    ),
  flag('openai-max-request-bytes', integer(1024), '8388608', ours)
    .says('Most bytes of the body of a call of the OpenAI API')
    .to('http.maxOpenAiBytes'),
  flag('lora-separator', text('TEXT'), '', ours)
    .says(
      "What stands between the name of a model and that of its adapter in calls of the OpenAI API, as Triton's flag: with _lora_ the model chat_lora_formal is chat with the adapter formal",
    )
    .to('http.loraSeparator'),
]

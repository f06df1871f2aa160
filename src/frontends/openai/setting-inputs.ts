// The inputs of models that take settings one by one, each with the names that it has in TensorRT-LLM's models: those of its
// present releases first, then those of earlier ones and of its LLM API.

import type { InputSpec, ModelSignature } from '../../config/model-signature.ts'

const namesOf: Readonly<Record<string, readonly string[]>> = {
  max_tokens: ['max_tokens', 'sampling_param_max_tokens'],
  min_tokens: ['min_tokens', 'min_length'],
  temperature: ['temperature', 'sampling_param_temperature'],
  top_p: ['top_p', 'sampling_param_top_p'],
  top_k: ['top_k', 'sampling_param_top_k'],
  repetition_penalty: ['repetition_penalty'],
  presence_penalty: ['presence_penalty', 'sampling_param_presence_penalty'],
  frequency_penalty: ['frequency_penalty', 'sampling_param_frequency_penalty'],
  seed: ['seed', 'random_seed', 'sampling_param_seed'],
  stop: ['stop_words', 'sampling_param_stop'],
}

/** What the answer must follow: its text, and an input beside it that says of which kind the text is. */
const guideInput = 'guided_decoding_guide'
export const guideTypeInput = 'guided_decoding_guide_type'

/** What the server tells every model that has an input for it. */
export const streamInputs = ['stream', 'streaming'] as const
export const excludeInputs = ['exclude_input_in_output', 'sampling_param_exclude_input_from_output'] as const
export const returnFlags = ['return_finish_reason', 'return_num_input_tokens', 'return_num_output_tokens'] as const

/** A model that needs these takes text all the same. */
const filled: ReadonlySet<string> = new Set([
  ...Object.values(namesOf).flat(),
  ...streamInputs,
  ...excludeInputs,
  ...returnFlags,
  'sampling_parameters',
  'return_logprobs',
])

export const isFilled = ({ name, isOptional }: InputSpec): boolean => isOptional || filled.has(name)

/** The settings that a model takes one by one, with the input of each. */
export function settingInputs({ inputByName }: ModelSignature): ReadonlyMap<string, InputSpec> {
  const found = new Map<string, InputSpec>()
  for (const [setting, names] of Object.entries(namesOf)) {
    const name = names.find((each) => inputByName.has(each))
    if (name !== undefined) found.set(setting, inputByName.get(name) as InputSpec)
  }
  const guide = inputByName.get(guideInput)
  if (guide !== undefined && inputByName.has(guideTypeInput)) found.set('json_schema', guide)
  return found
}

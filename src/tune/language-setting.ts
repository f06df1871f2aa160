// The tuned setting of a language model: three of its parameters.

export type LanguageSetting = {
  /** Requests that are computed at the same time. */
  readonly slots: number
  /** Prompt tokens of one step; 0: the server decides. */
  readonly chunk: number
  readonly threads: number
}

type JsonObject = Readonly<Record<string, unknown>>
type Parameters = Readonly<Record<string, { readonly string_value?: string }>>

/** Parameters of config.pbtxt by the member of a setting. */
const parameterOf: Readonly<Record<keyof LanguageSetting, string>> = {
  slots: 'max_sequences',
  chunk: 'prompt_tokens_per_step',
  threads: 'n_threads',
}

const usualSlots = 16

const parametersOf = (config: JsonObject): Parameters => (config['parameters'] ?? {}) as Parameters

/** What the server does now. */
export function languageSettingOf(config: JsonObject, cores: number): LanguageSetting {
  const parameters = parametersOf(config)
  const read = (member: keyof LanguageSetting, fallback: number): number => {
    const text = parameters[parameterOf[member]]?.string_value
    return text === undefined ? fallback : Number(text)
  }
  return { slots: read('slots', usualSlots), chunk: read('chunk', 0), threads: read('threads', cores) }
}

/** A configuration to load instead of the repository's. */
export function configWithLanguage(config: JsonObject, setting: LanguageSetting): JsonObject {
  const changed = Object.entries(parameterOf).map(([member, key]) => [
    key,
    { string_value: String(setting[member as keyof LanguageSetting]) },
  ])
  return { ...config, parameters: { ...parametersOf(config), ...Object.fromEntries(changed) } }
}

/** Parameters that a file must have so that the setting holds. */
export const changedParameters = (now: LanguageSetting, wanted: LanguageSetting): [key: string, value: string][] =>
  (Object.keys(parameterOf) as (keyof LanguageSetting)[])
    .filter((member) => now[member] !== wanted[member])
    .map((member) => [parameterOf[member], String(wanted[member])])

export const languageKeyOf = ({ slots, chunk, threads }: LanguageSetting): string => `${slots}/${chunk}/${threads}`

export const languageText = ({ slots, chunk, threads }: LanguageSetting): string =>
  `${slots} at a time, prompts ${chunk === 0 ? 'as the server sees fit' : `${chunk} tokens a step`}, ${threads} thread${threads === 1 ? '' : 's'}`

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findLanguageSetting, type LanguageLimits, type LanguagePoint } from './find-language-setting.ts'
import { changedParameters, configWithLanguage, languageSettingOf, type LanguageSetting } from './language-setting.ts'

const space = { threads: [1, 2, 4], slots: [1, 4, 16, 32], chunk: [0, 128, 512] }
const none: LanguageLimits = { firstTokenMs: Infinity, interTokenMs: Infinity, memoryMib: Infinity }
const start: LanguageSetting = { slots: 16, chunk: 0, threads: 1 }

/** A machine of two cores: more slots give more tokens and longer pauses, longer chunks sooner first tokens and longer pauses. */
function figuresOf(setting: LanguageSetting): LanguagePoint {
  const { slots, chunk, threads } = setting
  const speed = threads === 2 ? 1.6 : threads === 1 ? 1 : 0.5
  return {
    setting,
    tokensPerSecond: speed * 10 * Math.sqrt(slots),
    firstTokenMs: 1000 / speed / (chunk === 0 ? 1 : chunk / 100),
    interTokenMs: (slots * 2 + chunk / 10) / speed,
    memoryMib: 100 + slots,
    failure: '',
  }
}

const search = (limits: Partial<LanguageLimits>, most = Infinity): ReturnType<typeof findLanguageSetting> => {
  let count = 0
  return findLanguageSetting(start, space, { ...none, ...limits }, (setting) =>
    Promise.resolve(count++ < most ? figuresOf(setting) : null),
  )
}

test('without limits the most tokens win', async () => {
  const { best, asItIs, isTimeUp } = await search({})
  assert.deepEqual(best?.setting, { slots: 32, chunk: 0, threads: 2 })
  assert.deepEqual([asItIs?.setting, isTimeUp], [start, false])
})

test('limits of first tokens, pauses and memory are kept', async () => {
  assert.equal((await search({ interTokenMs: 25 })).best?.setting.slots, 16)
  assert.equal((await search({ firstTokenMs: 200 })).best?.setting.chunk, 512)
  assert.equal((await search({ memoryMib: 110 })).best?.setting.slots, 4)
  assert.equal((await search({ interTokenMs: 1 })).best, null)
})

test('a search without time keeps what it has found', async () => {
  const { best, isTimeUp } = await search({}, 3)
  assert.deepEqual([best?.setting.threads, isTimeUp], [2, true])
  assert.deepEqual((await search({}, 0)).asItIs, null)
})

test('a setting that does not load is no choice', async () => {
  const { best } = await findLanguageSetting(start, space, none, (setting) =>
    Promise.resolve({ ...figuresOf(setting), failure: setting.slots === 32 ? 'no memory' : '' }),
  )
  assert.equal(best?.setting.slots, 16)
})

test('the configuration has the setting, and a file gets what differs', () => {
  const config = { backend: 'llamacpp', parameters: { context_length: { string_value: '512' }, n_threads: { string_value: '3' } } } // prettier-ignore
  assert.deepEqual(languageSettingOf(config, 8), { slots: 16, chunk: 0, threads: 3 })
  const wanted = { slots: 4, chunk: 128, threads: 3 }
  assert.deepEqual(languageSettingOf(configWithLanguage(config, wanted), 8), wanted)
  assert.deepEqual(changedParameters({ slots: 16, chunk: 0, threads: 3 }, wanted), [['max_sequences', '4'], ['prompt_tokens_per_step', '128']]) // prettier-ignore
})

import assert from 'node:assert/strict'
import test from 'node:test'
import { ServerError } from '../../base/server-error.ts'
import { emptyModelConfig, type ModelVersionPolicy } from '../../config/model-config.ts'
import type { ModelVersionState } from '../../model/model-version.ts'
import type { FailedPoll, FoundModel } from '../../repository/model-repository.ts'
import { planChange, type ChangeRules, type CurrentModel, type KnownVersion } from './plan-change.ts'
import { versionOrigin } from './version-origin.ts'

type Look = { readonly versions?: readonly string[]; readonly files?: string; readonly policy?: ModelVersionPolicy }

const all: ModelVersionPolicy = { latest: null, all: {}, specific: null }

/** `files` tells the content of all version folders. */
const found = ({ versions = ['1', '2'], files = 'A', policy = all }: Look = {}): FoundModel => ({
  name: 'm',
  error: null,
  config: { ...emptyModelConfig(), name: 'm', versionPolicy: policy },
  modelDirectory: '/models/m',
  repositoryPath: '/models',
  versions,
  fingerprint: files,
  partFingerprints: new Map(['', ...versions].map((part) => [part, `${part} ${files}`])),
  hints: [],
})

const version = (number: string, files: string, state: ModelVersionState = 'READY'): KnownVersion => ({
  version: number,
  state,
  origin: files === '' ? '' : versionOrigin(found({ files }), number),
})

const serving = (files: string, ...versions: readonly KnownVersion[]): CurrentModel<KnownVersion> => ({
  state: 'SERVING',
  fingerprint: files,
  versions,
})
const absent: CurrentModel<KnownVersion> = { state: 'ABSENT', fingerprint: '', versions: [] }
const sleeping: CurrentModel<KnownVersion> = { state: 'SLEEPING', fingerprint: 'A', versions: [] }
const both = serving('A', version('1', 'A'), version('2', 'A'))

/** `keep 1 load 2 retire 2`, in numbers. */
function planOf(current: CurrentModel<KnownVersion>, polled: FoundModel | FailedPoll, rules: Partial<ChangeRules>) {
  const plan = planChange(current, polled, {
    isForced: false,
    mayStayAsleep: false,
    isLazy: false,
    isEnsemble: false,
    selected: null,
    hasRoom: () => true,
    ...rules,
  })
  if (plan.kind === 'UNREADABLE') return `UNREADABLE ${plan.reason}`
  if (plan.kind === 'SLEEP') return `SLEEP ${plan.versions.join()}`
  if (plan.kind !== 'SERVE') return plan.kind
  const numbers = (some: readonly KnownVersion[]): string => some.map((one) => one.version).join()
  return `keep ${numbers(plan.keep)} load ${plan.load.join()} retire ${numbers(plan.retire)}`
}

const unreadable = (cause?: string): FailedPoll => ({
  name: 'm',
  error: new ServerError('INVALID_ARG', 'torn', cause === undefined ? {} : { cause: new Error(cause) }),
  hints: [],
})

const rows: readonly [
  rule: string,
  current: CurrentModel<KnownVersion>,
  polled: FoundModel | FailedPoll,
  rules: Partial<ChangeRules>,
  plan: string,
][] = [
  ['a first load loads what the policy chooses', absent, found(), {}, 'keep  load 1,2 retire '],
  ['a policy that chooses nothing loads nothing', absent, found({ versions: [] }), {}, 'keep  load  retire '],
  ['the same files go on serving', both, found(), {}, 'GO_ON_SERVING'],
  ['a forced load of them keeps the versions', both, found(), { isForced: true }, 'keep 1,2 load  retire '],
  ['other files are loaded beside the old', both, found({ files: 'B' }), {}, 'keep  load 1,2 retire 1,2'],
  ['an added version is loaded alone', serving('x', version('1', 'A')), found(), {}, 'keep 1 load 2 retire '],
  [
    'a version that is no longer chosen retires alone',
    both,
    found({ policy: { latest: { numVersions: 1 }, all: null, specific: null } }),
    { isForced: true },
    'keep 2 load  retire 1',
  ],
  [
    'versions whose files are not known are never kept',
    serving('A', version('1', ''), version('2', 'A')),
    found(),
    { isForced: true },
    'keep 2 load 1 retire 1',
  ],
  [
    'versions that failed or are gone are loaded anew and do not retire',
    serving('x', version('1', 'A', 'UNAVAILABLE'), version('2', 'A')),
    found(),
    {},
    'keep 2 load 1 retire ',
  ],
  ['an ensemble is made anew', both, found(), { isForced: true, isEnsemble: true }, 'keep  load 1,2 retire 1,2'],
  ['an entry that cannot be read says why', both, unreadable(), {}, 'UNREADABLE torn'],
  ['and because of what', absent, unreadable('by whom'), { mayStayAsleep: true }, 'UNREADABLE torn: by whom'],
  ['a lazy model sleeps', absent, found(), { mayStayAsleep: true, isLazy: true }, 'SLEEP 1,2'],
  ['unless somebody needs it', absent, found(), { isLazy: true }, 'keep  load 1,2 retire '],
  ['or it serves', both, found({ files: 'B' }), { mayStayAsleep: true, isLazy: true }, 'keep  load 1,2 retire 1,2'],
  ['what finds no room sleeps', absent, found(), { mayStayAsleep: true, hasRoom: () => false }, 'SLEEP 1,2'],
  ['what finds room does not', absent, found(), { mayStayAsleep: true }, 'keep  load 1,2 retire '],
  ['what sleeps goes on sleeping', sleeping, found(), { mayStayAsleep: true, isLazy: true }, 'GO_ON_SLEEPING'],
  [
    'what sleeps is read again when its files have changed',
    sleeping,
    found({ files: 'B' }),
    { mayStayAsleep: true, isLazy: true },
    'SLEEP 1,2',
  ],
  ['what sleeps is woken with the same files', sleeping, found(), { isLazy: true }, 'keep  load 1,2 retire '],
  [
    'a model without versions does not sleep',
    absent,
    found({ versions: [] }),
    { mayStayAsleep: true, isLazy: true },
    'keep  load  retire ',
  ],
]

for (const [rule, current, polled, rules, plan] of rows) {
  test(rule, () => assert.equal(planOf(current, polled, rules), plan))
}

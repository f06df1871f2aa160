// `galatea check` and the server agree: what the server refuses has an error, what it serves has none.

import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { SystemClock } from '../../src/base/clock.ts'
import { createModelInspector } from '../../src/create-model-inspector.ts'
import { openLoadTrial } from '../../src/load-trial.ts'
import { createEngine, type Log } from '../../src/index.ts'
import { defaultOptions } from '../../src/options/options-from-flags.ts'
import type { LintFinding } from '../../src/repository/lint-finding.ts'
import { lintRepositories, type LintReport } from '../../src/repository/lint-repository.ts'
import { LocalStore } from '../../src/repository/local-store.ts'
import { ManualClock } from '../fakes/manual-clock.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { until } from '../until.ts'
import { mistakes as mistakesInText } from './beginner-mistakes.ts'
import { failingModels } from './failing-models.ts'
import { testPython } from './python-checks.ts'
import { exampleModels, projectRoot } from './server-process.ts'

const mistakes = { ...mistakesInText, ...failingModels }

const settings = () => ({
  ...defaultOptions().engine,
  backendConfig: new Map([['python', new Map([['interpreter', testPython()]])]]),
})

async function check(root: string, loads = true): Promise<LintReport> {
  const inspector = createModelInspector(settings())
  const trial = loads ? openLoadTrial(new SystemClock(), settings(), 600) : null
  try {
    return await lintRepositories({ store: new LocalStore(), inspector, trial }, settings(), [root])
  } finally {
    inspector.close()
    await trial?.close()
  }
}

/** The models that a server does not serve, with the reason. */
async function refused(root: string, models: readonly string[]): Promise<Map<string, string>> {
  const reasons = new Map<string, string>()
  const quiet = (): void => undefined
  const log: Log = {
    error: (text) => {
      const [, model, reason] = /^Poll failed for model directory '(.*?)': (.*)/s.exec(text) ?? []
      if (model !== undefined) reasons.set(model, reason ?? '')
    },
    warning: quiet,
    info: quiet,
    verbose: quiet,
    isVerbose: () => false,
    from: () => log,
  }
  const engine = await createEngine({ modelRepository: root, log, backendConfig: settings().backendConfig })
  try {
    const index = engine.index()
    for (const { name, state, reason } of index) if (state === 'UNAVAILABLE') reasons.set(name, reason)
    for (const name of models) {
      const isServed = index.some((entry) => entry.name === name && entry.state === 'READY')
      if (!isServed && !reasons.has(name)) reasons.set(name, 'not served')
    }
    return reasons
  } finally {
    await engine.close()
  }
}

const withErrors = (findings: readonly LintFinding[]): Set<string> =>
  new Set(findings.filter(({ severity }) => severity === 'error').map(({ model }) => model))

async function assertAgreement(root: string): Promise<void> {
  const { models, findings } = await check(root)
  const errors = withErrors(findings)
  const reasons = await refused(root, models)
  const missed = [...reasons].filter(([name]) => !errors.has(name))
  const invented = findings.filter(({ model, severity }) => severity === 'error' && !reasons.has(model))
  assert.deepEqual({ missed, invented }, { missed: [], invented: [] })
}

const recorded = path.join(projectRoot, 'test/conformance/golden/repositories')

for (const name of ['compose', 'control', 'invalid']) {
  test(`repository '${name}' of the recorded cases`, () => assertAgreement(path.join(recorded, name)))
}

test('what other tests serve has no errors', async () => {
  const examples = ['models', 'python'].map((name) => path.join(projectRoot, 'examples', name))
  const served = ['base', 'generate', 'observed', 'schedule', 'sequence'].map((name) => path.join(recorded, name))
  for (const root of [...examples, ...served]) {
    // Git keeps no empty folders, so ensembles of the recorded cases get theirs when they are served.
    // The other tests load them.
    const errors = (await check(root, false)).findings.filter(
      ({ severity, rule }) => severity === 'error' && rule !== 'no-version',
    )
    assert.deepEqual(errors, [])
  }
})

async function mistakeRepository(context: TestContext): Promise<string> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-mistakes-'))
  context.after(() => rm(root, { recursive: true, force: true }))
  const digits = await readFile(path.join(exampleModels, 'digits/1/model.onnx'))
  for (const [model, { files }] of Object.entries({ good: { files: { '1/model.onnx': '@digits' } }, ...mistakes })) {
    for (const [name, text] of Object.entries(files)) {
      const file = path.join(root, model, name)
      await mkdir(path.dirname(file), { recursive: true })
      await writeFile(file, text === '@digits' ? digits : text)
    }
  }
  return root
}

test('every mistake of a beginner is found where it is, with what to do', async (context) => {
  const root = await mistakeRepository(context)
  const { findings } = await check(root)
  for (const [model, { says, isServed }] of Object.entries(mistakes)) {
    const own = findings.filter((finding) => finding.model === model)
    const [rule, text] = says
    const isSaid = own.some((finding) => finding.rule === rule && text.test(`${finding.message}\n${finding.fix}`))
    assert.ok(isSaid, `${model}: expected [${rule}] ${String(text)}, found ${JSON.stringify(own, null, 1)}`)
    assert.equal(withErrors(own).size, isServed === true ? 0 : 1, `${model}: ${JSON.stringify(own, null, 1)}`)
  }
  await assertAgreement(root)
})

const pidFile = 'pid.txt'
const hanging = `import os, pathlib
pathlib.Path(__file__).with_name('${pidFile}').write_text(str(os.getpid()))
while True:
    pass
`
const killer = "process.kill(process.pid, 'SIGKILL')\nexport const infer = () => []\n"

test('a model that hangs or ends the process is told, and nothing of it stays', async (context) => {
  const files = {
    'hangs/1/model.py': hanging,
    'kills/1/model.ts': killer,
    'good/1/model.ts': 'export const infer = () => []\n',
  }
  const { root, remove } = await temporaryRepository(files)
  context.after(remove)
  const clock = new ManualClock()
  const trial = openLoadTrial(clock, settings(), 60)
  const hangs = trial.load(root, 'hangs')
  const killed = await trial.load(root, 'kills')
  assert.match(killed.kind === 'failed' ? killed.reason : '', /would end while it loads this model: .*SIGKILL/)
  const pid = Number(
    await until(() => readFile(path.join(root, 'hangs/1', pidFile), 'utf8').catch(() => ''), 'the model runs'),
  )
  clock.advanceNs(60e9)
  assert.deepEqual(await hangs, { kind: 'unfinished', seconds: 60 })
  await until(() => !existsSync(`/proc/${pid}`), 'the process of the model is gone')
  assert.equal((await trial.load(root, 'good')).kind, 'loaded')
  await trial.close()
})

test('the folder of one model is told from a repository', async (context) => {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-mistakes-'))
  context.after(() => rm(root, { recursive: true, force: true }))
  await cp(path.join(exampleModels, 'digits'), path.join(root, 'digits'), { recursive: true })
  const [first, ...others] = (await check(path.join(root, 'digits'))).findings
  assert.deepEqual([first?.rule, first?.fix, others], ['repository', `name the folder above: '${root}'`, []])
})

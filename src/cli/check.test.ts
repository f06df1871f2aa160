import assert from 'node:assert/strict'
import { copyFile, mkdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { temporaryRepository } from '../../test/fixtures/temporary-repository.ts'
import type { ModelInspector } from '../repository/model-inspector.ts'
import type { LintFinding } from '../repository/lint-finding.ts'
import { runCheck, type CheckParts } from './check.ts'

type Files = Readonly<Record<string, string>>
type Outcome = { status: number; stdout: string; stderr: string }

async function check(args: readonly string[], openInspector?: CheckParts['openInspector']): Promise<Outcome> {
  const outcome = { status: 0, stdout: '', stderr: '' }
  const io = {
    stdout: (text: string): void => void (outcome.stdout += text),
    stderr: (text: string): void => void (outcome.stderr += text),
  }
  outcome.status = await runCheck(args, io, openInspector === undefined ? {} : { openInspector })
  return outcome
}

async function repositoryOf(context: TestContext, files: Files): Promise<string> {
  const { root, remove } = await temporaryRepository(files)
  context.after(remove)
  return root
}

/** `rule file:line message` of each finding, the file inside the repository. */
async function findings(root: string, ...args: string[]): Promise<string[]> {
  const { stdout } = await check([root, '--json', ...args])
  const report = JSON.parse(stdout) as { findings: LintFinding[] }
  // Which blocks are not acted on changes with every version and has a test of its own.
  const lasting = report.findings.filter(({ rule }) => rule !== 'not-available')
  return lasting.map(
    ({ rule, file, line, message }) => `${rule} ${file.slice(root.length + 1)}:${line ?? '-'} ${message}`,
  )
}

/** Finds nothing, but for what a test sets. */
const inspectorWith = (parts: Partial<ModelInspector>): ModelInspector => ({
  gpuCount: 0,
  hasBackend: () => Promise.resolve(true),
  readSignature: () => Promise.resolve(null),
  complete: (config) => Promise.resolve(config),
  problemsOf: () => Promise.resolve([]),
  warningsOf: () => Promise.resolve([]),
  warmUpProblem: () => Promise.resolve(null),
  close: () => undefined,
  ...parts,
})

const good =
  'backend: "python"\ninput { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }\n'

test('a sound repository is said to be sound, with status 0', async (context) => {
  const root = await repositoryOf(context, { 'm/config.pbtxt': good, 'm/1/model.py': '', 'auto/1/model.onnx': '' })
  assert.deepEqual(await check([root]), {
    status: 0,
    stdout: '0 errors, 0 warnings in 2 models (2 clean)\n',
    stderr: '',
  })
})

test('every problem of every model is told in one run, with its place and what to do', async (context) => {
  const root = await repositoryOf(context, {
    'a/1/model.py': '',
    'a/config.pbtxt': 'backend: "python"\ndynamic_batching {\n  max_batch_size: 4\n}\nmax_bach_size: 8\n',
    'b/1/model.py': '',
    'b/config.pbtxt': `${good}max_batch_size: -1\ninstance_group { kind: KIND_CPU gpus: [ 0 ] }\n`,
  })
  const { status, stdout } = await check([root])
  assert.equal(status, 1)
  assert.equal(
    stdout,
    `${root}/a/config.pbtxt:3:3: error: unknown field 'max_batch_size' in ModelDynamicBatching [text]
    'max_batch_size' is a field of the model itself: move it out to the top level of the file
${root}/a/config.pbtxt:5:1: error: unknown field 'max_bach_size' in ModelConfig [text]
    did you mean 'max_batch_size'?
${root}/b/config.pbtxt:4:1: error: 'max_batch_size' must be non-negative value for b [poll]
    use 0 for a model that does not batch
${root}/b/config.pbtxt:5:33: error: instance group b_0 of model b has kind KIND_CPU but specifies one or more GPUs [load]
    leave 'gpus' out, or use KIND_GPU where there is a GPU
4 errors, 0 warnings in 2 models (0 clean)
`,
  )
})

test('warnings alone leave the status at 0', async (context) => {
  const root = await repositoryOf(context, {
    'm/config.pbtxt': `${good}dynamic_batching { }\nversion_policy { specific { versions: [ 1, 7 ] } }\n`,
    'm/1/model.py': '',
    'm/v2/model.py': '',
  })
  assert.equal((await check([root])).status, 0)
  assert.deepEqual(await findings(root), [
    "layout m:- folder 'v2' is not a version and is ignored",
    'batching-without-size m/config.pbtxt:4 dynamic_batching has no effect: max_batch_size is 0, so every request runs alone',
    "absent-version m/config.pbtxt:5 version 7 is asked for, but there is no folder '7'",
  ])
})

test('files that are missing, misplaced or elsewhere are found', async (context) => {
  const root = await repositoryOf(context, {
    'a/config.pbtxt': good.replace('"Y"', '"Y" label_filename: "labels.txt"'),
    'a/1/net.py': '',
    'b/config.pbtxt': good,
    'b/model.py': '',
    'c/1/weights.bin': '',
    'd/config.pbtxt': `name: "e"\n${good}`,
    'd/1/model.py': '',
    'f/config.pbtxt': good,
  })
  await symlink('/etc', join(root, 'f', '1'))
  assert.deepEqual(await findings(root), [
    "model-file a/1/model.py:- version 1 has no model file 'model.py'",
    `label-file a/config.pbtxt:3 failed to open text file for read ${root}/a/labels.txt: No such file or directory`,
    'no-version b:- there is no version folder',
    "poll c/config.pbtxt:- Invalid model name: Could not determine backend for model 'c' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
    "poll d/config.pbtxt:1 unexpected directory name 'd' for model 'e', directory name must equal model name",
    'no-version f:- there is no version folder',
    `link-outside f/1:- '${root}/f/1' leads out of '${root}': it is a link to '/etc'`,
  ])
})

test('an ensemble is compared with the models it calls', async (context) => {
  const ensemble = (step: string): string =>
    `platform: "ensemble"\ninput { name: "A" data_type: TYPE_FP32 dims: [ 1 ] }\noutput { name: "Z" data_type: TYPE_FP32 dims: [ 1 ] }\nensemble_scheduling {\n step { ${step} output_map { key: "Y" value: "Z" } }\n}\n`
  const root = await repositoryOf(context, {
    'model/config.pbtxt': good,
    'model/1/model.py': '',
    'e1/1/': '',
    'e1/config.pbtxt': ensemble('model_name: "modle" model_version: -1 input_map { key: "X" value: "A" }'),
    'e2/1/': '',
    'e2/config.pbtxt': ensemble('model_name: "model" input_map { key: "NOPE" value: "A" }'),
    'e3/1/': '',
    'e3/config.pbtxt': ensemble('model_name: "model" model_version: -2 input_map { key: "X" value: "A" }'),
  })
  assert.deepEqual(await findings(root), [
    'ensemble e1/config.pbtxt:5 ensemble e1 contains models that are not available or ambiguous: modle',
    "ensemble e2/config.pbtxt:5 ensemble 'e2' depends on 'model' whose required version 0 is not loaded.",
    'ensemble e2/config.pbtxt:5 in ensemble e2, ensemble tensor A is mapping to non-existing input NOPE in model model',
    'ensemble e2/config.pbtxt:5 in ensemble e2, input X in model model is not mapped to any ensemble tensors',
    "ensemble e3/config.pbtxt:5 ensemble 'e3' depends on 'model' whose required version -2 is not loaded.",
  ])
})

test('an accelerator that nobody knows and a parameter that cannot be read are told once, beside all else', async (context) => {
  const { root, remove } = await temporaryRepository({
    'm/config.pbtxt': `backend: "onnxruntime"
optimization { execution_accelerators {
  gpu_execution_accelerator { name: "tensort" }
  gpu_execution_accelerator { name: "cuda" parameters { key: "use_tf23" value: "0" } }
} }
parameters { key: "gpu_batch_sizes" value { string_value: "0" } }
instance_group { kind: KIND_CPU gpus: [ 0 ] }
`,
  })
  context.after(remove)
  await mkdir(join(root, 'm/1'))
  await copyFile('examples/models/simple/1/model.onnx', join(root, 'm/1/model.onnx'))
  const told = await findings(root)
  assert.deepEqual(
    told.map((line) => line.replace(/^(\S+ \S+ ).*?('\w+'|KIND_CPU).*/s, '$1$2')),
    [
      "load m/config.pbtxt:3 'tensort'",
      "load m/config.pbtxt:4 'use_tf23'",
      "load m/config.pbtxt:6 'gpu_batch_sizes'",
      'load m/config.pbtxt:7 KIND_CPU',
    ],
  )
})

test('amounts that a server would not survive are errors', async (context) => {
  const root = await repositoryOf(context, {
    'm/config.pbtxt': `${good}instance_group { kind: KIND_CPU count: 2147483647 }\n`,
    'm/1/model.py': '',
  })
  assert.deepEqual(await findings(root), [
    'load m/config.pbtxt:4 instance groups of model m ask for 2147483647 instances, the most are 1024',
  ])
})

test('a parameter with a value that its backend cannot read is an error, a key that is nearly right a warning', async (context) => {
  const parameter = (key: string, value: string): string =>
    `parameters { key: "${key}" value { string_value: "${value}" } }\n`
  const root = await repositoryOf(context, {
    'm/config.pbtxt': `${good}${parameter('max_execution_ms', 'soon')}${parameter('lasy', 'true')}${parameter('own', 'x')}`,
    'm/1/model.py': '',
  })
  assert.deepEqual(await findings(root), [
    "load m/config.pbtxt:4 parameter 'max_execution_ms' of model 'm' must be a whole number from 0 to 2147483647, got 'soon'",
    "parameter m/config.pbtxt:5 parameter 'lasy' means nothing to the server",
  ])
})

test('a block this version does not act on is named', async (context) => {
  const root = await repositoryOf(context, {
    'm/config.pbtxt': `${good}model_repository_agents { agents { name: "decrypt" } }\n`,
    'm/1/model.py': '',
  })
  const { status, stdout } = await check([root])
  assert.equal(status, 1)
  const expected =
    'model_repository_agents is not available in this version of Galatea: of repository agents there is `checksum` alone'
  assert.ok(stdout.includes(`/m/config.pbtxt:4:1: error: ${expected} [not-available]`), stdout)
})

test('a model in two repositories is an error', async (context) => {
  const one = await repositoryOf(context, { 'm/1/model.py': '' })
  const two = await repositoryOf(context, { 'm/1/model.py': '' })
  const { status, stdout } = await check([one, two])
  assert.equal(status, 1)
  assert.match(stdout, /error: model appears in two or more repositories \[duplicate\]\n    it is also in/)
})

test('the model file itself is compared where something can read it', async (context) => {
  const root = await repositoryOf(context, {
    'm/1/model.onnx': '',
    'm/config.pbtxt':
      'backend: "onnxruntime"\nmax_batch_size: 4\ninput { name: "input" data_type: TYPE_FP32 dims: [ 224, 224, 3 ] }\noutput { name: "y" data_type: TYPE_FP32 dims: [ 10 ] }\n',
    'broken/1/model.onnx': '',
  })
  const readSignature: ModelInspector['readSignature'] = (path) =>
    path.includes('broken')
      ? Promise.reject(new Error('not an ONNX file'))
      : Promise.resolve({
          inputs: [{ name: 'input', dataType: 'TYPE_FP32', shape: [-1, 3, 224, 224] }],
          outputs: [{ name: 'y', dataType: 'TYPE_FP32', shape: [-1, 10] }],
        })
  const { status, stdout } = await check([root], () => inspectorWith({ readSignature }))
  assert.equal(status, 1)
  assert.match(stdout, /config\.pbtxt:3:44: error: model 'm', tensor 'input': the model expects 4 dimensions/)
  assert.match(
    stdout,
    /model input 'input' expects \[3,224,224\], config says \[224,224,3\]: the model takes channels first/,
  )
  assert.match(stdout, /broken\/1\/model\.onnx: error: the model file cannot be read: not an ONNX file/)
})

test('--disable-auto-complete-config and --model-config-name judge as a server with them would', async (context) => {
  const root = await repositoryOf(context, {
    'm/1/model.py': '',
    'n/1/model.py': '',
    'n/config.pbtxt': good,
    'n/configs/gpu.pbtxt': 'rubbish',
  })
  assert.deepEqual(await findings(root, '--disable-auto-complete-config'), [
    'no-config m/config.pbtxt:- there is no config.pbtxt',
  ])
  assert.match(
    (await findings(root, '--model-config-name', 'gpu')).join(),
    /^text n\/configs\/gpu\.pbtxt:1 unknown field 'rubbish'/,
  )
})

test('a wrong command line or an unreadable repository has status 2', async () => {
  assert.deepEqual(await check([]), {
    status: 2,
    stdout: '',
    stderr:
      "galatea check: name the repository to check: galatea check ./models\nRun 'galatea check --help' for its options.\n",
  })
  assert.match((await check(['--jsn', 'x'])).stderr, /there is no option '--jsn'; did you mean '--json'\?/)
  const missing = await check(['/no/such/folder'])
  assert.equal(missing.status, 2)
  assert.match(missing.stderr, /^galatea check: failed to stat file \/no\/such\/folder\nthere is no such folder/)
  assert.match((await check([import.meta.filename])).stderr, /it is a file. A repository is the folder/)
  const help = await check(['--help'])
  assert.equal(help.status, 0)
  assert.match(help.stdout, /^Usage: galatea check <repository…>/)
})

test('a repository without models is a warning, so that a wrong folder is noticed', async (t) => {
  const root = await repositoryOf(t, { 'models/.git/': '' })
  const { status, stdout } = await check([join(root, 'models')])
  assert.equal(status, 0)
  assert.match(
    stdout,
    /models: warning: no folder with a model is in it.*\[empty\]\n.*\n0 errors, 1 warning in 0 models/,
  )
})

test('the rules of access are checked alone, or with the models that they name', async (t) => {
  const rules = 'keys: keys.json\nroles: { caller: { allow: ["inference@vision-*", "metadata@sound"] } }\n'
  const grants = 'grants: [{ to: { key: "web-*" }, role: caller }]\n'
  const key = { id: 'abcdefghij', name: 'app', hash: '0'.repeat(64), role: 'king', created: '2026-01-31T12:00:00Z' }
  const root = await repositoryOf(t, {
    'models/vision-a/config.pbtxt': 'backend: "identity"\n',
    'models/vision-a/1/': '',
    'access.yaml': rules + grants,
    'keys.json': JSON.stringify({ keys: [key] }),
    'broken.yaml': 'rolls: {}\ntenants: { web: { limits: [{ requests: fast }] } }\n',
  })
  const alone = await check(['--access-config', join(root, 'access.yaml')])
  assert.equal(alone.status, 0)
  assert.match(alone.stdout, /keys.json: warning: key 'app' has the role 'king', which is not in 'roles'.*\[access\]/)
  assert.match(alone.stdout, /access.yaml: warning: a grant is meant for keys 'web-\*', and no key has such a name/)
  assert.match(alone.stdout, /0 errors, 2 warnings in 0 models \(0 clean\)\n$/)
  const both = await check([join(root, 'models'), `--access-config=${join(root, 'access.yaml')}`])
  assert.match(both.stdout, /'metadata@sound' in 'roles.caller' names no model/)
  assert.doesNotMatch(both.stdout, /inference@vision/)
  const broken = await check(['--access-config', join(root, 'broken.yaml')])
  assert.equal(broken.status, 1)
  assert.match(broken.stdout, /broken.yaml:1:8: error: 'rolls' is not a key that is known \[access\]\n {4}did you mean/)
  assert.match(broken.stdout, /broken.yaml:2:\d+: error: 'tenants.web.limits.0.requests' must be an amount/)
})

test('the rules of --actions are checked alone, or with the models that they name', async (t) => {
  const root = await repositoryOf(t, {
    'models/digits/config.pbtxt': 'backend: "identity"\n',
    'models/digits/1/': '',
    'actions.yaml': 'rules:\n  - { when: \'galatea_pressure{model="letters"} > 0.9\', do: [unload_idle] }\n  - { alert: A, labels: { model: "dig*" }, do: [rollback] }\n', // prettier-ignore
    'broken.yaml': 'rules:\n  - { alert: A, do: [explode] }\n',
  })
  const good = await check(['--actions', join(root, 'actions.yaml')])
  assert.deepEqual([good.status, good.stdout], [0, '0 errors, 0 warnings in 0 models (0 clean)\n'])
  const both = await check([join(root, 'models'), `--actions=${join(root, 'actions.yaml')}`])
  assert.match(
    both.stdout,
    /actions.yaml: warning: the rule '.*' is about the model 'letters', and there is none of that name \[actions\]/,
  )
  assert.match(both.stdout, /0 errors, 1 warning in 1 model/)
  const broken = await check(['--actions', join(root, 'broken.yaml')])
  assert.equal(broken.status, 1)
  assert.match(broken.stdout, /broken.yaml:2:\d+: error: .* \[actions\]/)
  const none = await check(['--actions', join(root, 'none.yaml')])
  assert.deepEqual([none.status, /cannot be read/.test(none.stdout)], [1, true])
})

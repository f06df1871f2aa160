// What happens to requests, neighbours and resources when a Python model misbehaves: each case by doing it.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { PythonModels, textConfig, textModel } from './python-models-under-test.ts'
import { until } from '../until.ts'

const wild = textModel(`
def execute(self, requests):
    what = text(requests[0])
    if what == "exit":
        os._exit(7)
    if what == "segfault":
        import ctypes
        ctypes.string_at(0)
    if what == "loop":
        while True:
            pass
    if what == "garbage":
        os.write(1, bytes(range(256)) * 1000)
        print("a line")
        print("an error line", file=sys.stderr)
    if what == "protocol":
        os.write(3, b"garbage" * 10)
        time.sleep(60)
    if what == "fork":
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    if what == "orphan":
        import subprocess
        child = subprocess.Popen(["sleep", "1000"])
        return [answer(child.pid)]
    if what == "fork-and-die":
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(1)
    if what == "silent":
        class Silent(Exception):
            def __str__(self):
                raise ValueError("no text")
        raise Silent()
    if what == "number":
        return 5
    if what == "memory":
        np.ones(1 << 30)
    return [answer(os.getpid()) for _ in requests]
`)

const forker = textModel(
  `
def execute(self, requests):
    import multiprocessing, time
    for _ in range(20):
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        child.start()
        child.terminate()
        child.join(20)
        assert child.exitcode == -15, child.exitcode
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return [answer("; ".join(sorted(set(pool.map(in_a_fork, range(4))))))]
`,
  `
def in_a_fork(number):
    pb_utils.Logger.log_info("from a fork")
    large = pb_utils.Tensor("X", np.zeros(1 << 20, np.uint8))
    try:
        pb_utils.InferenceRequest(model_name="m", requested_output_names=[], inputs=[large]).exec()
    except Exception as error:
        return str(error)
`,
)

let models: PythonModels
before(async () => {
  models = await PythonModels.load({
    wild: { code: wild, config: `${textConfig}parameters { key: "max_execution_ms" value { string_value: "400" } }` },
    forker: { code: forker, config: textConfig },
    limited: {
      code: wild,
      config: `${textConfig}parameters { key: "max_memory_bytes" value { string_value: "1000000000" } }`,
    },
    folded: {
      file: 'sub/other.py',
      code: textModel(
        'def execute(self, requests):\n    return [answer(f"{isinstance(r, InferenceRequest)} {type(r).__module__} {__name__}") for r in requests]',
        'from c_python_backend_utils import InferenceRequest',
      ),
      config: `${textConfig}default_model_filename: "sub/other.py"`,
    },
    idle: { code: textModel('pass'), config: textConfig },
    early: {
      code: textModel(`
@staticmethod
def auto_complete_config(config):
    try:
        pb_utils.is_model_ready("neighbour")
    except pb_utils.TritonModelException as error:
        pb_utils.Logger.log_warn(str(error))
    pb_utils.Logger.log_warn("the configuration is complete")
    return config

def execute(self, requests):
    return [answer("fine") for _ in requests]`),
      config: textConfig,
    },
    neighbour: {
      code: textModel('def execute(self, requests):\n    return [answer("fine") for _ in requests]'),
      config: textConfig,
    },
  })
})
after(() => models.close())

const unhealthy = "INTERNAL: Stub process 'wild_0' is not healthy."

for (const [what, expected] of [
  ['exit', unhealthy],
  ['segfault', unhealthy],
  ['protocol', unhealthy],
  ['fork-and-die', unhealthy],
  [
    'loop',
    "INTERNAL: Failed to process the request(s) for model 'wild_0', message: execution took longer than max_execution_ms (400)",
  ],
] as const) {
  test(`a worker lost to '${what}' fails the request it held, and only that; the instance comes back`, async () => {
    await models.becomesReady('wild')
    const [lost, other] = await Promise.all([models.say('wild', what), models.say('neighbour', 'x')])
    assert.equal(lost, expected)
    assert.equal(other, 'fine')
    await models.becomesReady('wild')
    assert.match(await models.say('wild', 'ok'), /^\d+$/)
  })
}

test('an exception whose text fails costs its request, not the worker', async () => {
  const pid = await models.say('wild', 'ok')
  assert.match(await models.say('wild', 'silent'), /Silent: <MESSAGE UNAVAILABLE DUE TO ANOTHER EXCEPTION>/)
  assert.equal(await models.say('wild', 'ok'), pid)
})

test('a wrong return value of execute is told to the client and in the log', async () => {
  const told =
    "Failed to process the request(s) for model 'wild_0', message: Expected a list in the execute return, found type '<class 'int'>'."
  assert.equal(await models.say('wild', 'number'), `INTERNAL: ${told}`)
  await models.said(told)
})

test('a model that completes its configuration logs, and questions to the server fail at once', async () => {
  assert.equal(models.failure('early'), '')
  await models.said('the configuration is complete')
  await models.said(
    "Failed to check model readiness: Failed to process the request for model '', message: metrics and model control are not there before the model is initialized",
  )
})

test('a model without execute says so to each request', async () => {
  const program = path.join(models.folder, 'idle', '1', 'model.py')
  const told = `Failed to process the request(s) for model 'idle_0', message: Python model ${program} does not implement \`execute\` method.`
  assert.equal(await models.say('idle', 'x'), `INTERNAL: ${told}`)
})

test('a model may lie in a folder of its version, and import the module of Triton’s classes', async () => {
  assert.equal(models.failure('folded'), '')
  assert.equal(await models.say('folded', 'x'), 'True c_python_backend_utils 1.sub.other')
})

test('while its only instance restarts a model is not ready', async () => {
  await models.becomesReady('wild')
  assert.equal(await models.say('wild', 'exit'), unhealthy)
  assert.equal(models.engine.isModelReady('wild', ''), false)
  await models.becomesReady('wild')
})

test('what a model prints reaches the log, whatever the bytes', async () => {
  assert.match(await models.say('wild', 'garbage'), /^\d+$/)
  await models.said('a line')
  const entry = models.log.entries.find(({ message }) => message === 'an error line')
  assert.equal(entry?.fields['model'], 'wild')
})

test('a fork inside execute does not disturb the worker', async () => {
  const pid = await models.say('wild', 'ok')
  assert.equal(await models.say('wild', 'fork'), pid)
  assert.equal(await models.say('wild', 'ok'), pid)
})

test('a forked process of a model is told that it cannot call other models, and what it logs is in the log', async () => {
  assert.match(
    await models.say('forker', ''),
    /^the server cannot be reached from a process that the model has forked: /,
  )
  // The lines come by another way than the answer.
  const told = (): typeof models.log.entries =>
    models.log.entries.filter(({ message }) => message.endsWith(': from a fork'))
  await until(() => told().length === 4, 'what the forked process logs')
  assert.equal(told()[0]?.fields['model'], 'forker')
})

test('processes that a model started end with its worker', async () => {
  const child = Number(await models.say('wild', 'orphan'))
  assert.equal(await models.say('wild', 'exit'), unhealthy)
  await until(() => !isAlive(child), 'the process of the model to end')
  await models.becomesReady('wild')
})

test('memory beyond max_memory_bytes is refused with an exception, and the worker lives on', async () => {
  const pid = await models.say('limited', 'ok')
  assert.match(await models.say('limited', 'memory'), /message: (numpy\.\S+|_ArrayMemoryError|MemoryError)/)
  assert.equal(await models.say('limited', 'ok'), pid)
})

test('after a row of crashes descriptors, shared memory and processes are back where they were', async () => {
  const crash = await PythonModels.load({ frail: { code: wild, config: textConfig } })
  try {
    await crash.say('frail', 'ok')
    const descriptorsBefore = descriptorCount()
    for (let i = 0; i < 3; i++) {
      assert.equal(await crash.say('frail', 'exit'), "INTERNAL: Stub process 'frail_0' is not healthy.")
      await crash.becomesReady('frail')
    }
    assert.match(await crash.say('frail', 'ok'), /^\d+$/)
    assert.ok(descriptorCount() <= descriptorsBefore, 'no descriptor is left behind')
    const pid = Number(await crash.say('frail', 'ok'))
    assertNamelessMemory(pid)
    await crash.close()
    assert.equal(isAlive(pid), false)
  } finally {
    await crash.close()
  }
})

test('a worker that ends during a long import fails the load with the reason, at once', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-slow-'))
  const pidFile = path.join(folder, 'pid')
  const slow = `import os, time\nopen(${JSON.stringify(pidFile)}, "w").write(str(os.getpid()) + ".")\ntime.sleep(1000)\n`
  const loading = PythonModels.load({ slow: { code: slow, config: textConfig } })
  const written = (): string => (fs.existsSync(pidFile) ? fs.readFileSync(pidFile, 'utf8') : '')
  await until(() => written().endsWith('.'), 'the process id of the worker', { seen: written })
  process.kill(Number(written()), 'SIGKILL')
  const loaded = await loading
  assert.match(loaded.failure('slow'), /ended while starting: it was ended by SIGKILL/)
  await loaded.close()
  fs.rmSync(folder, { recursive: true })
})

test('a worker that ends in initialize is told in the words of Triton with --triton-defaults, and the log says how', async () => {
  const code = 'import os\nclass TritonPythonModel:\n    def initialize(self, args):\n        os.kill(os.getpid(), 9)\n'
  const loaded = await PythonModels.load({ gone: { code, config: textConfig } }, {}, '/nowhere', true)
  assert.match(loaded.failure('gone'), /Stub process 'gone(_0)+' is not healthy\.$/)
  const told = loaded.log.entries.find(({ message }) => message === 'worker ended while starting')
  assert.equal(told?.fields['reason'], 'it was ended by SIGKILL')
  await loaded.close()
})

test('kill -9 of the server ends its workers, even one in an endless loop, and leaves no shared memory behind', async () => {
  const program = `
    import { PythonModels, textConfig } from ${JSON.stringify(path.join(import.meta.dirname, 'python-models-under-test.ts'))}
    import { textTensor } from ${JSON.stringify(path.join(import.meta.dirname, 'python-models-under-test.ts'))}
    const models = await PythonModels.load({ wild: { code: ${JSON.stringify(wild)}, config: textConfig } })
    const pid = await models.say('wild', 'ok')
    models.request('wild', [textTensor('X', ['loop'])], () => undefined)
    process.stdout.write(pid + ' ' + models.folder + '\\n')`
  const server = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(server.stdout.setEncoding('utf8'), 'data')) as [string]
  const [pid = '', folder = ''] = line.trim().split(' ')
  assert.equal(isAlive(Number(pid)), true)
  assertNamelessMemory(Number(pid))
  server.kill('SIGKILL')
  await until(() => !isAlive(Number(pid)), 'the worker to end')
  fs.rmSync(folder, { recursive: true })
})

test('a model that says it is not ready is not ready, and is again when it says so', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-ready-'))
  const flag = JSON.stringify(path.join(folder, 'busy'))
  const code = textModel(
    `def is_ready(self):\n    return not os.path.exists(${flag})\ndef execute(self, requests):\n    return [answer("yes")]`,
  )
  const moody = await PythonModels.load({ moody: { code, config: textConfig } })
  try {
    const becomes = (isReady: boolean): Promise<void> => moody.becomesReady('moody', isReady)
    await becomes(true)
    fs.writeFileSync(path.join(folder, 'busy'), '')
    await becomes(false)
    fs.rmSync(path.join(folder, 'busy'))
    await becomes(true)
    assert.equal(await moody.say('moody', 'x'), 'yes')
  } finally {
    await moody.close()
    fs.rmSync(folder, { recursive: true })
  }
})

const descriptorCount = (): number => fs.readdirSync('/proc/self/fd').length

/** Memory that has no name cannot be left behind. */
function assertNamelessMemory(pid: number): void {
  const folder = `/proc/${pid}/fd`
  const links = fs.readdirSync(folder).map((fd) => fs.readlinkSync(path.join(folder, fd)))
  assert.equal(links.filter((link) => link.startsWith('/memfd:galatea')).length, 2)
  assert.deepEqual(
    links.filter((link) => link.startsWith('/dev/shm')),
    [],
  )
}

function isAlive(pid: number): boolean {
  try {
    // A zombie is as good as gone.
    return !/^State:\s+Z/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

// Python models through the engine: what execute sees, what its answers become, decoupled models, calls of other models.

import assert from 'node:assert/strict'
import { until } from '../until.ts'
import { after, before, test } from 'node:test'
import { imports, numbersTensor, PythonModels, textConfig, textModel, textTensor } from './python-models-under-test.ts'

const addSub = `${imports}
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]))
        return responses
`
const addSubConfig = `backend: "python"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "INPUT1" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: [ -1 ] } ]
`

/** Runs the text it is given as Python; \`out\` is the answer. */
const evaluate = textModel(`
def execute(self, requests):
    answers = []
    for r in requests:
        names = {"r": r, "np": np, "pb_utils": pb_utils, "self": self, "out": None, "json": json, "threading": threading}
        try:
            exec(text(r), names)
            answers.append(answer(names["out"]))
        except Exception as error:
            answers.append(answer("%s: %s" % (type(error).__name__, error)))
    return answers
`)

const repeat = `${imports}
import threading

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            count = int(pb_utils.get_input_tensor_by_name(request, "COUNT").as_numpy()[0])
            sender = request.get_response_sender()
            threading.Thread(target=self.answer, args=(sender, count)).start()

    def answer(self, sender, count):
        for i in range(count):
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("INDEX", np.array([i], dtype=np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`
const repeatConfig = `backend: "python"
input { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "INDEX" data_type: TYPE_INT32 dims: [ 1 ] }
model_transaction_policy { decoupled: true }
`

const forgetful = `${imports}
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            request.get_response_sender().send(pb_utils.InferenceResponse([pb_utils.Tensor("INDEX", np.array([7], dtype=np.int32))]))
`

/** Answers `one` of its own request before it fails, and nothing of the others. */
const twice = textModel(`
def execute(self, requests):
    sender = requests[0].get_response_sender()
    sender.send(answer("one"))
    sender.send(answer("two"))
`)

const asynchronous = textModel(`
async def execute(self, requests):
    async def call(n):
        a = pb_utils.Tensor("INPUT0", np.full((1, 2), n, np.float32))
        b = pb_utils.Tensor("INPUT1", np.ones((1, 2), np.float32))
        inner = pb_utils.InferenceRequest(model_name="add_sub", requested_output_names=["OUTPUT0"], inputs=[a, b])
        response = await inner.async_exec()
        return pb_utils.get_output_tensor_by_name(response, "OUTPUT0").as_numpy()[0, 0]
    sums = await asyncio.gather(*[call(n) for n in range(10)])
    await asyncio.sleep(0)
    return [answer([int(s) for s in sums]) for _ in requests]
`)

/** Says how many requests wait in it at the same time, once the fourth is there, or nobody comes any more. */
const waiting = textModel(`
def initialize(self, args):
    self.count = 0
    self.most = 0

async def execute(self, requests):
    for request in requests:
        self.count += 1
        self.most = max(self.most, self.count)
        for _ in range(300):
            if self.most == 4:
                break
            await asyncio.sleep(0.01)
        self.count -= 1
        sender = request.get_response_sender()
        sender.send(answer(self.most))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`)
const calling = textModel(`
async def execute(self, requests):
    for request in requests:
        x = pb_utils.get_input_tensor_by_name(request, "X")
        inner = pb_utils.InferenceRequest(model_name="waiting", requested_output_names=["OUT"], inputs=[x])
        sender = request.get_response_sender()
        for response in await inner.async_exec(decoupled=True):
            if response.output_tensors():
                sender.send(pb_utils.InferenceResponse(response.output_tensors()))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`)
/** Answers until its caller has enough. */
const endless = textModel(`
def execute(self, requests):
    for request in requests:
        sender = request.get_response_sender()
        while not request.is_cancelled():
            sender.send(answer(1))
            time.sleep(0.001)
        error = pb_utils.TritonError("stopped", pb_utils.TritonError.CANCELLED)
        sender.send(pb_utils.InferenceResponse(error=error), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`)
const decoupledText = `${textConfig}model_transaction_policy { decoupled: true }\n`

const automatic = `${imports}
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        config.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [2], "optional": True})
        config.add_output({"name": "B", "data_type": "TYPE_FP32", "dims": [2]})
        return config

    def initialize(self, args):
        import json
        self.config = json.loads(args["model_config"])

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.full((1, 2), self.config["max_batch_size"], np.float32))]) for _ in requests]
`

let models: PythonModels
before(async () => {
  models = await PythonModels.load({
    add_sub: { code: addSub, config: addSubConfig },
    evaluate: { code: evaluate, config: textConfig },
    twice: { code: twice, config: textConfig },
    repeat: { code: repeat, config: repeatConfig },
    forgetful: { code: forgetful, config: repeatConfig },
    asynchronous: { code: asynchronous, config: textConfig },
    waiting: { code: waiting, config: decoupledText },
    calling: { code: calling, config: decoupledText },
    endless: { code: endless, config: decoupledText },
    misnamed: {
      code: textModel('def execute(self, requests):\n    return [answer(1) for _ in requests]').replace(
        '"OUT"',
        '"OUTT"',
      ),
      config: textConfig,
    },
    automatic: { code: automatic, config: '' },
    no_class: { code: 'class Other:\n    pass\n', config: textConfig },
    bad_import: { code: 'import no_such_module\n', config: textConfig },
    bad_syntax: { code: 'class A(:\n', config: textConfig },
  })
})
after(() => models.close())

test('a model gets its inputs as arrays and its answers come back', async () => {
  const inputs = [
    numbersTensor('INPUT0', 'FP32', [1, 3], [1, 2, 3]),
    numbersTensor('INPUT1', 'FP32', [1, 3], [10, 20, 30]),
  ]
  const [answer] = await models.infer('add_sub', inputs)
  assert.deepEqual(answer?.outputs, { OUTPUT0: [11, 22, 33], OUTPUT1: [-9, -18, -27] })
  assert.deepEqual(answer?.shapes, { OUTPUT0: [1, 3], OUTPUT1: [1, 3] })
})

test('only requested outputs are answered', async () => {
  const inputs = [numbersTensor('INPUT0', 'FP32', [1, 1], [1]), numbersTensor('INPUT1', 'FP32', [1, 1], [1])]
  const [answer] = await models.infer('add_sub', inputs, { requestedOutputs: ['OUTPUT1'] })
  assert.deepEqual(answer?.outputs, { OUTPUT1: [0] })
})

test('tensors of any size arrive whole, beside each other and one after another', async () => {
  const sizes = [1, 1000, 2048, 2049, 70_000, 1_000_000, 3]
  const ask = async (size: number): Promise<void> => {
    const values = Array.from({ length: size }, (_, i) => i % 1000)
    const inputs = [
      numbersTensor('INPUT0', 'FP32', [1, size], values),
      numbersTensor('INPUT1', 'FP32', [1, size], values),
    ]
    const [answer] = await models.infer('add_sub', inputs)
    assert.equal(answer?.error, null)
    assert.deepEqual(
      answer?.outputs['OUTPUT0'],
      values.map((value) => value * 2),
    )
  }
  for (const size of sizes) await ask(size)
  await Promise.all(sizes.map(ask))
})

test('without shared memory tensors of any size travel through the socket', async () => {
  const socketOnly = await PythonModels.load(
    { add_sub: { code: addSub, config: addSubConfig } },
    { 'shared-memory': 'off' },
  )
  try {
    for (const size of [1, 5000, 100_000, 1_000_000]) {
      const values = Array.from({ length: size }, (_, i) => i % 100)
      const inputs = ['INPUT0', 'INPUT1'].map((name) => numbersTensor(name, 'FP32', [1, size], values))
      const [answer] = await socketOnly.infer('add_sub', inputs)
      assert.deepEqual(
        answer?.outputs['OUTPUT0'],
        values.map((value) => value * 2),
      )
    }
  } finally {
    await socketOnly.close()
  }
})

test('an execute sees id, correlation id, flags, timeout and parameters', async () => {
  const seen = await models.say(
    'evaluate',
    'out = [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), json.loads(r.parameters()), sorted(r.requested_output_names())]',
    {
      id: 'ünï',
      correlationId: 2n ** 63n + 1n,
      isSequenceStart: true,
      timeoutUs: 77n,
      parameters: new Map<string, string | bigint | boolean | number>([
        ['a', 1n],
        ['b', 2],
        ['c', true],
        ['d', 'x'],
      ]),
    },
  )
  assert.equal(seen, "['ünï', 9223372036854775809, 1, 77, {'a': 1, 'b': 2.0, 'c': True, 'd': 'x'}, ['OUT']]")
  assert.equal(await models.say('evaluate', 'out = r.correlation_id()', { correlationId: 'seven' }), 'seven')
  assert.equal(await models.say('evaluate', 'out = repr(r.correlation_id())', { correlationId: '' }), "''")
  assert.equal(await models.say('evaluate', 'out = repr(r.correlation_id())'), '0')
})

test('what a model sent before it failed reaches the client; a second response is the error of the model', async () => {
  assert.equal(await models.say('twice', 'x'), 'one')
  await until(
    () => models.logged('Non-decoupled model cannot send more than one response').length > 0,
    'the error in the log',
  )
})

test('parameters are JSON also where there are none, as in Triton: models read them without a look at their length', async () => {
  assert.equal(await models.say('evaluate', 'out = repr(r.parameters())'), "'{}'")
  const made = `made = pb_utils.InferenceRequest(model_name="m", requested_output_names=[], inputs=[])
out = repr(made.parameters())`
  assert.equal(await models.say('evaluate', made), "'{}'")
})

test('an array kept beyond its request keeps its content', async () => {
  const [size, fill] = [20_000, 5]
  const keep = `${imports}
class TritonPythonModel:
    def initialize(self, args):
        self.kept = []
    def execute(self, requests):
        for request in requests:
            self.kept.append(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())
        total = np.array([[float(sum(array[0, 0] for array in self.kept))]], dtype=np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", total)]) for _ in requests]
`
  const keeping = await PythonModels.load({ keep: { code: keep, config: addSubConfig } })
  try {
    const totals: unknown[] = []
    for (let i = 1; i <= 5; i++) {
      const inputs = ['INPUT0', 'INPUT1'].map((name) =>
        numbersTensor(name, 'FP32', [1, size], Array<number>(size).fill(i * fill)),
      )
      totals.push((await keeping.infer('keep', inputs))[0]?.outputs['OUTPUT0']?.[0])
    }
    assert.deepEqual(totals, [5, 15, 30, 50, 75])
  } finally {
    await keeping.close()
  }
})

test('a batch that needs more shared memory than allowed fails with the setting that moves the limit', async () => {
  const small = await PythonModels.load(
    { add_sub: { code: addSub, config: addSubConfig } },
    { 'shm-default-byte-size': '1048576', 'shm-max-byte-size': '1048576' },
  )
  try {
    const tensor = (name: string, size: number): ReturnType<typeof numbersTensor> =>
      numbersTensor(name, 'FP32', [1, size], Array<number>(size).fill(1))
    const [tooBig] = await small.infer('add_sub', [tensor('INPUT0', 500_000), tensor('INPUT1', 500_000)])
    assert.match(tooBig?.error?.message ?? '', /shm-max-byte-size/)
    const [fine] = await small.infer('add_sub', [tensor('INPUT0', 100_000), tensor('INPUT1', 100_000)])
    assert.equal(fine?.outputs['OUTPUT0']?.[99_999], 2)
  } finally {
    await small.close()
  }
})

test('an exception in execute is told with its type, text and place; its traceback is logged', async () => {
  const raising = await PythonModels.load({
    raising: {
      code: textModel('def execute(self, requests):\n    raise ValueError("told to raise")'),
      config: textConfig,
    },
  })
  try {
    const file = `${raising.folder}/raising/1/model.py`
    assert.equal(
      await raising.say('raising', 'x'),
      `INTERNAL: Failed to process the request(s) for model 'raising_0', message: ValueError: told to raise\n\nAt:\n  ${file}(15): execute\n`,
    )
    await raising.said('ValueError: told to raise')
    const [entry, ...others] = raising.log.entries.filter(({ message }) => message.includes('told to raise'))
    assert.equal(others.length, 0)
    assert.equal(entry?.level, 'error')
    assert.match(
      entry.message,
      /^Traceback \(most recent call last\):\n[^]*raise ValueError\("told to raise"\)[^]*ValueError: told to raise$/,
    )
  } finally {
    await raising.close()
  }
})

test('an output that the configuration does not name is an error with its name', async () => {
  assert.equal(
    await models.say('misnamed', 'x'),
    "INTERNAL: output 'OUTT' of the model is not in its configuration, which has 'OUT'",
  )
})

test('coroutines that await decoupled models run at the same time', async () => {
  const answers = await Promise.all([1, 2, 3, 4].map(() => models.say('calling', 'x')))
  assert.deepEqual(answers, ['4', '4', '4', '4'])
})

test('responses of a decoupled model come in order and end with the final flag', async () => {
  const answers = await models.infer('repeat', [numbersTensor('COUNT', 'INT32', [1], [100])])
  assert.deepEqual(
    answers.slice(0, -1).map((answer) => answer.outputs['INDEX']?.[0]),
    Array.from({ length: 100 }, (_, i) => i),
  )
  assert.equal(answers.at(-1)?.isFlagOnly, true)
})

test('a decoupled model may answer many requests at the same time', async () => {
  const counts = [0, 1, 5, 50, 20, 3]
  const all = await Promise.all(
    counts.map((count) => models.infer('repeat', [numbersTensor('COUNT', 'INT32', [1], [count])])),
  )
  assert.deepEqual(
    all.map((answers) => answers.length - 1),
    counts,
  )
})

test('a request whose response sender is dropped without the final flag ends with an error', async () => {
  const answers = await models.infer('forgetful', [numbersTensor('COUNT', 'INT32', [1], [1])])
  assert.deepEqual(answers[0]?.outputs, { INDEX: [7] })
  assert.match(answers.at(-1)?.error?.message ?? '', /dropped this request/)
})

test('a model calls another one and gets its tensors', async () => {
  const code = `
a = pb_utils.Tensor("INPUT0", np.full((1, 3000), 2, np.float32))
b = pb_utils.Tensor("INPUT1", np.ones((1, 3000), np.float32))
response = pb_utils.InferenceRequest(model_name="add_sub", requested_output_names=["OUTPUT1", "OUTPUT0"], inputs=[a, b]).exec()
out = [(t.name(), float(t.as_numpy().sum())) for t in response.output_tensors()]`
  assert.equal(await models.say('evaluate', code), "[('OUTPUT0', 9000.0), ('OUTPUT1', 3000.0)]")
})

test('calls of other models fail as responses, not as exceptions', async () => {
  const call = (model: string, version = -1): string =>
    `r = pb_utils.InferenceRequest(model_name="${model}", requested_output_names=["OUT"], inputs=[], model_version=${version}).exec()
out = r.error().message()`
  assert.equal(
    await models.say('evaluate', call('nobody')),
    "Model nobody - Error when running inference: Failed for execute the inference request. Model 'nobody' is not ready.",
  )
  for (const version of [-2, 0, 7]) {
    assert.match(await models.say('evaluate', call('add_sub', version)), /Model 'add_sub' is not ready\.$/)
  }
  assert.match(await models.say('evaluate', call('repeat')), /is using the decoupled/)
  assert.match(await models.say('evaluate', call('add_sub')), /^Model add_sub - Error when running inference: .*OUT/)
})

test('a decoupled call is iterated, its last response is the empty one of the flag', async () => {
  const code = `
count = pb_utils.Tensor("COUNT", np.array([3], np.int32))
responses = pb_utils.InferenceRequest(model_name="repeat", requested_output_names=["INDEX"], inputs=[count]).exec(decoupled=True)
out = [[int(t.as_numpy()[0]) for t in response.output_tensors()] for response in responses]`
  assert.equal(await models.say('evaluate', code), '[[0], [1], [2], []]')
})

test('a loop over a decoupled call goes on where the last one was left, and starts over after the end', async () => {
  const code = `
count = pb_utils.Tensor("COUNT", np.array([3], np.int32))
responses = pb_utils.InferenceRequest(model_name="repeat", requested_output_names=["INDEX"], inputs=[count]).exec(decoupled=True)
index = lambda response: [int(t.as_numpy()[0]) for t in response.output_tensors()]
out = [index(next(responses))] + [index(r) for r in responses] + [len(list(responses))]
for response in responses:
    break
out = out + [index(next(responses)), len(list(responses)), len(list(responses))]`
  assert.equal(await models.say('evaluate', code), '[[0], [1], [2], [], 4, [1], 2, 4]')
})

test('a decoupled call that is cancelled ends with the error of its own cancel', async () => {
  const code = `
x = pb_utils.get_input_tensor_by_name(r, "X")
responses = pb_utils.InferenceRequest(model_name="endless", requested_output_names=["OUT"], inputs=[x]).exec(decoupled=True)
for response in responses:
    if response.has_error():
        out = response.error().code() == pb_utils.TritonError.CANCELLED
        break
    responses.cancel()`
  assert.equal(await models.say('evaluate', code), 'True')
})

test('threads of one execute may call other models at the same time', async () => {
  const code = `
sums = [0] * 8
def call(i):
    a = pb_utils.Tensor("INPUT0", np.full((1, 1), i, np.float32))
    response = pb_utils.InferenceRequest(model_name="add_sub", requested_output_names=["OUTPUT0"], inputs=[a, pb_utils.Tensor("INPUT1", np.ones((1, 1), np.float32))]).exec()
    sums[i] = int(response.output_tensors()[0].as_numpy()[0, 0])
threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
out = sums`
  assert.equal(await models.say('evaluate', code), '[1, 2, 3, 4, 5, 6, 7, 8]')
})

test('an asynchronous execute awaits calls of other models', async () => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => models.say('asynchronous', 'x')))
  assert.deepEqual(new Set(answers), new Set(['[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]']))
})

test('a model asks whether models are ready, and unloads and loads one', async () => {
  assert.equal(
    await models.say('evaluate', 'out = [pb_utils.is_model_ready(n) for n in ("add_sub", "nobody")]'),
    '[True, False]',
  )
  assert.equal(
    await models.say(
      'evaluate',
      'pb_utils.unload_model("forgetful"); a = pb_utils.is_model_ready("forgetful"); pb_utils.load_model("forgetful"); out = [a, pb_utils.is_model_ready("forgetful")]',
    ),
    '[False, True]',
  )
  const failing = (call: string): Promise<string> =>
    models.say(
      'evaluate',
      `try:\n  pb_utils.load_model(${call})\nexcept Exception as e:\n  out = type(e).__name__ + " " + str(e)`,
    )
  assert.match(
    await failing('"nobody"'),
    /^TritonModelException Failed to load model: Failed to process the request for model 'evaluate_0', message: .*'nobody'/,
  )
  assert.match(await failing('"forgetful", {"backend": "python"}'), /^TypeError load_model\(\): incompatible/)
})

test('custom metrics move in the server and leave with their owner', async () => {
  await models.say(
    'evaluate',
    'self.family = pb_utils.MetricFamily(name="orders", description="d", kind=pb_utils.MetricFamily.COUNTER); self.metric = self.family.Metric(labels={"shop": "north"})',
  )
  assert.equal(
    await models.say('evaluate', 'self.metric.increment(2.5); self.metric.increment(1); out = self.metric.value()'),
    '3.5',
  )
  const [family] = [...models.metrics.families()]
  assert.deepEqual(
    [...(family?.series.values() ?? [])].map(({ labels, value }) => [labels, value]),
    [[[['shop', 'north']], 3.5]],
  )
  await models.say('evaluate', 'del self.metric, self.family')
  await models.say('evaluate', 'pass')
  assert.equal(family?.series.size, 0)
  const histogram =
    'f = pb_utils.MetricFamily(name="sizes", description="d", kind=pb_utils.MetricFamily.HISTOGRAM); self.h = f.Metric(labels={}, buckets=[1, 5]); self.h.observe(1); self.h.observe(3); self.h.observe(9)'
  await models.say('evaluate', histogram)
  await models.say('evaluate', 'pass')
  const sizes = [...models.metrics.families()].find(({ name }) => name === 'sizes')
  assert.deepEqual(
    [...(sizes?.series.values() ?? [])].map(({ counts, sum }) => [counts, sum]),
    [[[1, 1, 1], 13]],
  )
})

test('a cancelled request is seen by its execute', async () => {
  const patient = await PythonModels.load({
    patient: {
      code: textModel(
        'def execute(self, requests):\n    print("it runs")\n    while not requests[0].is_cancelled():\n        time.sleep(0.001)\n    return [pb_utils.InferenceResponse(error=pb_utils.TritonError("seen", pb_utils.TritonError.CANCELLED))]',
      ),
      config: textConfig,
    },
  })
  try {
    const error = await new Promise<string | undefined>((resolve) => {
      const request = patient.request('patient', [textTensor('X', ['x'])], (answer) =>
        resolve(`${answer.error?.code} ${answer.error?.message}`),
      )
      // One that is cancelled before it runs would not run at all.
      void (async () => {
        await patient.said('it runs')
        request.cancel()
      })()
    })
    assert.equal(error, 'CANCELLED seen')
  } finally {
    await patient.close()
  }
})

test('response parameters keep their types', async () => {
  const speaking = await PythonModels.load({
    speaking: {
      code: textModel(
        'def execute(self, requests):\n    return [pb_utils.InferenceResponse([], parameters={"a": 1, "b": 2.0, "c": "x", "d": True, "e": float("nan"), "f": -float("inf")})]',
      ),
      config: textConfig,
    },
  })
  try {
    const [answer] = await speaking.infer('speaking', [textTensor('X', ['x'])])
    assert.deepEqual(
      [...(answer?.parameters ?? [])],
      [
        ['a', 1n],
        ['b', 2],
        ['c', 'x'],
        ['d', true],
        ['e', NaN],
        ['f', -Infinity],
      ],
    )
  } finally {
    await speaking.close()
  }
})

test('auto_complete_config fills in what config.pbtxt leaves out, and initialize sees it', async () => {
  const { config } = models.engine.findVersion('automatic', '')
  assert.equal(config.maxBatchSize, 4)
  assert.deepEqual(
    config.input.map(({ name, dataType, dims, optional }) => [name, dataType, dims, optional]),
    [['A', 'TYPE_FP32', [2], true]],
  )
  assert.notEqual(config.dynamicBatching, null)
  const [answer] = await models.infer('automatic', [numbersTensor('A', 'FP32', [1, 2], [1, 2])])
  assert.deepEqual(answer?.outputs, { B: [4, 4] })
})

test('a model that cannot be imported fails to load with the reason and its place', () => {
  assert.equal(
    models.failure('no_class'),
    "Internal: AttributeError: module '1.model' has no attribute 'TritonPythonModel'",
  )
  assert.equal(models.failure('bad_syntax'), 'Internal: SyntaxError: invalid syntax (model.py, line 1)')
  assert.match(
    models.failure('bad_import'),
    new RegExp(
      `^Internal: ModuleNotFoundError: No module named 'no_such_module'\\n\\nAt:\\n  ${models.folder}/bad_import/1/model.py\\(1\\): <module>\\n  <frozen importlib._bootstrap>\\(\\d+\\): _call_with_frames_removed\\n`,
    ),
  )
})

test('an interpreter that does not exist is named, with what to do', async () => {
  const lost = await PythonModels.load(
    { add_sub: { code: addSub, config: addSubConfig } },
    { interpreter: '/no/such/python3' },
  )
  assert.match(lost.failure('add_sub'), /Python was not found: '\/no\/such\/python3' cannot be started.*--python /)
  await lost.close()
})

// Python models of sequences: what they are told and keep, and requests that they want again.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { imports, numbersTensor, PythonModels, textConfig, textModel } from './python-models-under-test.ts'

const numbers = `backend: "python"
max_batch_size: 4
input { name: "N" data_type: TYPE_INT32 dims: 1 }
output { name: "OUT" data_type: TYPE_INT32 dims: 1 }
instance_group { kind: KIND_CPU count: 1 }
`

/** Counts down from N, one step per execution, by correlation id; the answer is N and how many ran with it at most. */
const countdown = `${imports}
class TritonPythonModel:
    def initialize(self, args):
        self.left = {}
        self.largest = {}

    def execute(self, requests):
        answers = []
        for request in requests:
            id = request.correlation_id()
            n = pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0][0]
            if pb_utils.get_input_tensor_by_name(request, "START").as_numpy()[0][0]:
                self.left[id] = n
                self.largest[id] = 0
            self.left[id] -= 1
            self.largest[id] = max(self.largest[id], len(requests))
            if self.left[id] > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                answers.append(None)
            else:
                out = np.array([[n * 10 + self.largest[id]]], dtype=np.int32)
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", out)]))
        return answers
`

/** Sends one number per execution, N of them in all. */
const stream = `${imports}
class TritonPythonModel:
    def initialize(self, args):
        self.sent = {}

    def execute(self, requests):
        for request in requests:
            id = request.correlation_id()
            n = pb_utils.get_input_tensor_by_name(request, "N").as_numpy()[0][0]
            sent = self.sent.get(id, 0) + 1
            self.sent[id] = sent
            out = pb_utils.Tensor("OUT", np.array([[sent]], dtype=np.int32))
            if sent < n:
                request.get_response_sender().send(pb_utils.InferenceResponse([out]))
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            else:
                request.get_response_sender().send(
                    pb_utils.InferenceResponse([out]), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
`

const start = 'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }'
const iterative = `sequence_batching { iterative_sequence: true ${start} oldest { max_candidate_sequences: 4 } }`

/** Adds N to a state that the server keeps. */
const tally = `${imports}
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            n = pb_utils.get_input_tensor_by_name(request, "N").as_numpy()
            s = pb_utils.get_input_tensor_by_name(request, "S").as_numpy()
            answers.append(pb_utils.InferenceResponse([
                pb_utils.Tensor("OUT", n + s), pb_utils.Tensor("S_OUT", n + s)]))
        return answers
`
const tallyConfig = `${numbers}
sequence_batching {
  state { input_name: "S" output_name: "S_OUT" data_type: TYPE_INT32 dims: 1 }
}
`

/** Says what its controls say. */
const echo = textModel(`
def execute(self, requests):
    def value(r, name):
        value = pb_utils.get_input_tensor_by_name(r, name).as_numpy().tolist()[0]
        return value.decode() if isinstance(value, bytes) else value
    return [answer([value(r, name) for name in ("START", "END", "READY", "ID")]) for r in requests]
`)
const echoConfig = `${textConfig}
sequence_batching {
  control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ -1, 7 ] } }
  control_input { name: "END" control { kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] } }
  control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 0.5 ] } }
  control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
}
`

let models: PythonModels

before(async () => {
  models = await PythonModels.load({
    countdown: { code: countdown, config: numbers + iterative },
    plain: { code: countdown, config: `${numbers}sequence_batching { ${start} }` },
    stream: { code: stream, config: `${numbers}${iterative}\nmodel_transaction_policy { decoupled: true }` },
    tally: { code: tally, config: tallyConfig },
    echo: { code: echo, config: echoConfig },
  })
})
after(() => models.close())

const numberOf = (n: number) => numbersTensor('N', 'INT32', [1, 1], [n])

test('a request comes again until the model answers it, others join it on the way', async () => {
  const [slow, fast] = await Promise.all([
    models.infer('countdown', [numberOf(6)]),
    models.infer('countdown', [numberOf(2)]),
  ])
  assert.deepEqual(slow[0]?.outputs['OUT'], [62])
  assert.deepEqual(fast[0]?.outputs['OUT'], [22])
  const [counted] = models.engine.statistics('countdown', '')
  assert.deepEqual([counted?.executionCount, counted?.inferenceCount], [6, 2])
})

test('a decoupled model answers between its iterations', async () => {
  const answers = await models.infer('stream', [numberOf(4)])
  assert.deepEqual(
    answers.map((answer) => answer.outputs['OUT']?.[0]),
    [1, 2, 3, 4],
  )
})

test('a request that is cancelled between two iterations ends, and the model goes on serving', async () => {
  const ended = Promise.withResolvers<string | undefined>()
  const request = models.request('countdown', [numberOf(1_000_000)], ({ error }) => ended.resolve(error?.code))
  await models.infer('countdown', [numberOf(3)])
  request.cancel()
  assert.equal(await ended.promise, 'CANCELLED')
  const [answer] = await models.infer('countdown', [numberOf(1)])
  assert.deepEqual(answer?.outputs['OUT'], [11])
})

test('a model that is not iterative cannot have a request again', async () => {
  const [answer] = await models.infer('plain', [numberOf(2)], { correlationId: 1n, isSequenceStart: true })
  assert.match(`${answer?.error?.code} ${answer?.error?.message}`, /^UNSUPPORTED .*iterative_sequence: true/)
})

test('the state that the server keeps goes on from request to request, sequence by sequence', async () => {
  const add = async (id: bigint, n: number, isSequenceStart = false): Promise<number | string | undefined> =>
    (await models.infer('tally', [numberOf(n)], { correlationId: id, isSequenceStart }))[0]?.outputs['OUT']?.[0]
  assert.deepEqual(await Promise.all([add(1n, 5, true), add(2n, 100, true)]), [5, 100])
  assert.deepEqual(await Promise.all([add(1n, 6), add(2n, 1)]), [11, 101])
  assert.equal(await add(1n, 7, true), 7)
})

test('controls of every kind and type arrive, correlation ids as text too', async () => {
  const said = [
    await models.say('echo', '', { correlationId: 'café', isSequenceStart: true }),
    await models.say('echo', '', { correlationId: 'café', isSequenceEnd: true }),
    await models.say('echo', '', { correlationId: '42', isSequenceStart: true, isSequenceEnd: true }),
  ]
  assert.deepEqual(said, ["[7, False, 0.5, 'café']", "[-1, True, 0.5, 'café']", "[7, True, 0.5, '42']"])
})

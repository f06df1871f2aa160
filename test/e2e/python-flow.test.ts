// Decoupled Python models and readers that fall behind: send waits, and whatever ends the wait wakes it.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { InferenceRequest } from '../../src/model/inference-request.ts'
import { PythonModels, textConfig, textModel, textTensor } from './python-models-under-test.ts'
import { until } from '../until.ts'

const decoupled = `${textConfig}model_transaction_policy { decoupled: true }\n`
const count = 300
const all = Array.from({ length: count }, (_, i) => i)
const final = 'sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)'

/** The word before the colon says what to do; `sent` tells how far the last `many` came. */
const inThreads = textModel(`
sent = 0

def execute(self, requests):
    for request in requests:
        threading.Thread(target=self.serve, args=(request,)).start()

def serve(self, request):
    sender = request.get_response_sender()
    word, _, rest = text(request).partition(":")
    if word == "many":
        self.sent = 0
        for i in range(${count}):
            sender.send(answer(str(i) + rest))
            self.sent = i + 1
    elif word == "many-of-called":
        ask = pb_utils.Tensor("X", np.array([b"many:"], dtype=np.object_))
        call = pb_utils.InferenceRequest(model_name="called", requested_output_names=["OUT"], inputs=[ask])
        for response in call.exec(decoupled=True):
            if response.output_tensors():
                sender.send(pb_utils.InferenceResponse(response.output_tensors()))
    elif word == "sent":
        sender.send(answer(self.sent))
    elif word == "call":
        call = pb_utils.InferenceRequest(model_name="once", requested_output_names=["OUT"], inputs=request.inputs())
        sender.send(pb_utils.InferenceResponse(call.exec().output_tensors()))
    ${final}
`)

const inEventLoop = textModel(`
async def execute(self, requests):
    await asyncio.gather(*[self.serve(request) for request in requests])

async def serve(self, request):
    sender = request.get_response_sender()
    for i in range(${count} if text(request) == "many" else 1):
        sender.send(answer(i))
        await asyncio.sleep(0)
    ${final}
`)

/** One thread answers all requests, as in backends that drive an engine of their own. */
const inOneThread = textModel(`
def initialize(self, args):
    import queue
    self.queue = queue.Queue()
    threading.Thread(target=self.serve, daemon=True).start()

def execute(self, requests):
    for request in requests:
        self.queue.put((request.get_response_sender(), text(request)))

def serve(self):
    import queue
    open = []
    while True:
        try:
            while True:
                sender, what = self.queue.get(block=not open)
                open.append([sender, ${count} if what == "many" else 2])
                if not self.queue.empty():
                    continue
                break
        except queue.Empty:
            pass
        for entry in list(open):
            sender = entry[0]
            sender.send(answer(entry[1]))
            entry[1] -= 1
            if entry[1] == 0:
                ${final}
                open.remove(entry)
        del sender, entry
`)

const inExecute = textModel(`
def execute(self, requests):
    for request in requests:
        sender = request.get_response_sender()
        what = text(request)
        if what == "fail":
            def send_on():
                try:
                    for i in range(${count}):
                        sender.send(answer(i))
                except Exception as error:
                    self.ended = str(error)
            self.thread = threading.Thread(target=send_on)
            self.thread.start()
            while sender._count < 32:
                time.sleep(0.001)
            raise ValueError("execute fails while a thread sends")
        if what == "ended":
            self.thread.join()
            sender.send(answer(self.ended))
        elif what == "big":
            for i in range(8):
                sender.send(answer("x" * (1 << 19)))
        else:
            for i in range(${count}):
                if sender.is_cancelled():
                    break
                sender.send(answer(i))
            self.sent = i
        ${final}
`)

let models: PythonModels
before(async () => {
  models = await PythonModels.load({
    threads: { code: inThreads, config: decoupled },
    loop: { code: inEventLoop, config: decoupled },
    one: { code: inOneThread, config: decoupled },
    plain: { code: inExecute, config: decoupled },
    called: { code: inThreads, config: decoupled },
    once: {
      code: textModel('def execute(self, requests):\n    return [answer("called") for _ in requests]'),
      config: textConfig,
    },
  })
  for (const name of ['threads', 'loop', 'one', 'plain', 'called', 'once']) assert.equal(models.failure(name), '')
})
after(() => models.close())

type Reading = {
  readonly request: InferenceRequest
  readonly received: string[]
  /** Resolves when `count` answers are there. */
  readonly has: (count: number) => Promise<void>
  readonly ended: Promise<string>
}

/** A reader that stops after its first answer, until it is told to go on. */
function stopReading(model: string, text: string, stopAfter = 1): Reading {
  const received: string[] = []
  let end: (error: string) => void
  const ended = new Promise<string>((resolve) => (end = resolve))
  const request = models.request(model, [textTensor('X', [text])], ({ outputs, error }, isFinal) => {
    const value = outputs['OUT']?.[0]
    if (value !== undefined) received.push(String(value))
    if (received.length === stopAfter) request.setPaused(true)
    if (isFinal) end(error?.message ?? '')
  })
  const has = async (count: number): Promise<void> => {
    await until(() => received.length >= count, `${count} answers`, { seen: () => received })
  }
  return { request, received, has, ended }
}

/** What is on its way when the reader stops: the worker's window, and no more. */
const window = 32

/** All that a worker without back-pressure would have sent meanwhile has come by then: the answers share one socket. */
const settle = (): Promise<unknown> => models.infer('threads', [textTensor('X', ['sent:'])])

test('send waits when the reader stops, with a window of 32 answers, and nothing is lost when it reads on', async () => {
  const slow = stopReading('threads', 'many:')
  await slow.has(window)
  // The same worker, on the same socket: answers of the first request sent before these would have come before them.
  for (let i = 0; i < 5; i++) await settle()
  assert.equal(slow.received.length, window)
  const [said] = await models.infer('threads', [textTensor('X', ['sent:'])])
  assert.equal(Number(said?.outputs['OUT']?.[0]), slow.received.length)
  slow.request.setPaused(false)
  assert.equal(await slow.ended, '')
  assert.deepEqual(slow.received.map(Number), all)
})

test('of large answers no more than half a mebibyte is on its way', async () => {
  const slow = stopReading('plain', 'big')
  await slow.has(1)
  await settle()
  assert.ok(slow.received.length <= 2, `${slow.received.length} answers of half a mebibyte`)
  slow.request.setPaused(false)
  assert.equal(await slow.ended, '')
  assert.equal(slow.received.length, 8)
})

test('while one request waits for its reader others of the model are served, calls of other models included', async () => {
  const slow = stopReading('threads', 'many:')
  await slow.has(window)
  const [called] = await models.infer('threads', [textTensor('X', ['call:'])])
  assert.equal(called?.outputs['OUT']?.[0], 'called')
  const fast = await models.infer('threads', [textTensor('X', ['many:'])])
  assert.equal(fast.filter((answer) => answer.outputs['OUT'] !== undefined).length, count)
  slow.request.setPaused(false)
  assert.equal(await slow.ended, '')
})

test('a model that passes on the answers of another waits for its reader, and gets all of them', async () => {
  const slow = stopReading('threads', 'many-of-called:')
  await slow.has(window)
  slow.request.setPaused(false)
  assert.equal(await slow.ended, '')
  assert.deepEqual(slow.received.map(Number), all)
})

test('a cancelled request is not waited for any more', async () => {
  const slow = stopReading('plain', 'many')
  await slow.has(window)
  slow.request.cancel()
  await slow.ended
  // The instance has one thread: it answers again only because its send came back.
  const next = await models.infer('plain', [textTensor('X', ['many'])])
  assert.equal(next.length, count + 1)
})

test('the end of a request by an error of execute ends the wait of a thread that sends for it', async () => {
  const slow = stopReading('plain', 'fail')
  assert.match(await slow.ended, /execute fails while a thread sends/)
  const [ended] = await models.infer('plain', [textTensor('X', ['ended'])])
  assert.equal(ended?.outputs['OUT']?.[0], 'Unable to send response. Response sender has been closed.')
})

test('an event loop waits for a slow reader only until there is another request to serve', async () => {
  const slow = stopReading('loop', 'many')
  await slow.has(window)
  assert.equal(slow.received.length, window)
  const other = await models.infer('loop', [textTensor('X', ['one'])])
  assert.equal(other[0]?.outputs['OUT']?.[0], '0')
  slow.request.setPaused(false)
  assert.equal(await slow.ended, '')
  assert.equal(slow.received.length, count)
})

test('a thread that answers several requests does not stand still for one of them', async () => {
  // Both at once: from here on the thread is known to serve more than one.
  await Promise.all([0, 1].map(() => models.infer('one', [textTensor('X', ['many'])])))
  const slow = stopReading('one', 'many')
  await slow.has(window)
  const other = await models.infer('one', [textTensor('X', ['two'])])
  assert.equal(other.length, 3)
  slow.request.setPaused(false)
  assert.equal(await slow.ended, '')
  assert.equal(slow.received.length, count)
})

test('a server that closes does not wait for a model that waits for its reader', async () => {
  const own = await PythonModels.load(
    { plain: { code: inExecute, config: decoupled } },
    { 'stub-timeout-seconds': '60' },
  )
  let received = 0
  let isWindowFull = (): void => undefined
  const full = new Promise<void>((resolve) => (isWindowFull = resolve))
  const request = own.request('plain', [textTensor('X', ['many'])], () => {
    if (++received === 1) request.setPaused(true)
    if (received === window) isWindowFull()
  })
  await full
  // The grace of a worker is a minute: it ends now because finalize reaches it.
  await own.engine.close(100)
  await own.close()
  assert.equal(own.logged('did not finish in time').length, 0)
})

// A decoupled model and a reader that does not keep up.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask, executeOne, int32Tensor, int32Values, type Asked } from '../backend.contract.ts'
import { int32Config, ScriptUnderTest } from '../script-under-test.contract.ts'
import { ResponseWindow, windowBytes, windowResponses } from './response-window.ts'

const preamble = `
import { tensor } from 'galatea/model'
const out = (value) => [tensor('OUT', 'INT32', [1], [value])]
`

/** Neither waits for anything of its own: only the reader holds them. */
const streams: Record<string, string> = {
  'an async generator': `export async function* infer() { for (let i = 0; i < 2000; i++) yield out(i) }`,
  'a sender that waits until it is ready': `
    export async function infer({ sender }) {
      for (let i = 0; i < 2000; i++) { await sender.ready(); sender.send(out(i)) }
      sender.close()
    }`,
}

for (const [form, source] of Object.entries(streams)) {
  for (const isolation of ['thread', 'process']) {
    test(`${form} in a ${isolation} waits while its request is paused, and loses nothing`, async (context) => {
      const config = int32Config({ isDecoupled: true, parameters: { isolation } })
      const script = await ScriptUnderTest.ofModel(context, preamble + source, { config })
      let countAtPause = 0
      const asked: Asked = ask([int32Tensor('IN', [0])], {
        onResponse: () => {
          const { request, responses } = asked
          if (responses.length !== 100) return
          request.setPaused(true)
          // Turns of the event loop in which far more could come, if the model did not wait.
          void lookLater()
        },
      })
      const lookLater = async (): Promise<void> => {
        for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
        countAtPause = asked.responses.length
        asked.request.setPaused(false)
      }
      await executeOne(script.instance, asked)
      assert.ok(
        countAtPause >= 100 && countAtPause <= 100 + windowResponses,
        `${countAtPause} came before the pause held`,
      )
      const values = asked.responses
        .filter(({ isFlagOnly }) => !isFlagOnly)
        .map(({ outputs }) => int32Values(outputs[0])[0])
      assert.deepEqual(
        values,
        Array.from({ length: 2000 }, (_, i) => i),
      )
    })
  }
}

test('a generator that never waits hears of its cancellation', async (context) => {
  const source = `${preamble} export async function* infer() { for (let i = 0; ; i++) yield out(i) }`
  const script = await ScriptUnderTest.ofModel(context, source, { config: int32Config({ isDecoupled: true }) })
  const asked: Asked = ask([int32Tensor('IN', [0])], {
    onResponse: () => {
      if (asked.responses.length === 5) asked.request.cancel()
    },
  })
  const { error } = await executeOne(script.instance, asked)
  assert.equal(error?.code, 'CANCELLED')
})

test('a window closes with its responses or their bytes on the way, and opens when they are taken', async () => {
  const window = new ResponseWindow()
  for (let i = 0; i < windowResponses; i++) {
    assert.equal(window.isOpen, true)
    window.sent(1)
  }
  assert.equal(window.isOpen, false)
  const ready = window.ready()
  window.taken(windowResponses, windowResponses)
  await ready
  window.sent(windowBytes)
  assert.equal(window.isOpen, false)
  const ended = window.ready()
  window.close()
  await ended
  assert.equal(window.isOpen, true)
})

// What a client sees of /predict where the optional package for pictures is not installed.

import assert from 'node:assert/strict'
import { registerHooks } from 'node:module'
import { after, test } from 'node:test'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { inject } from '../fakes/injected-request.ts'
import { startHttpFixture } from './http-fixture.ts'

const hooks = registerHooks({
  resolve: (specifier, context, next) => {
    if (specifier !== 'sharp') return next(specifier, context)
    throw Object.assign(new Error("Cannot find package 'sharp'"), { code: 'ERR_MODULE_NOT_FOUND' })
  },
})
const model = (type: string, dims: string, kind: string) => ({
  config: `input { name: "IN" data_type: TYPE_${type} dims: [ ${dims} ] } output { name: "OUT" data_type: TYPE_${type} dims: [ ${dims} ] }
    parameters { key: "predict" value { string_value: "${kind}" } }`,
  run: answerWithCopy,
})
const fixture = await startHttpFixture(
  {},
  { picture: model('UINT8', '1, 2, 2', 'image'), words: model('STRING', '1', 'text') },
)
after(async () => {
  hooks.deregister()
  await fixture.close()
})

const send = (name: string, body: Buffer | string): ReturnType<typeof inject> =>
  inject(fixture.frontend, { method: 'POST', path: `/v2/models/${name}/predict`, body })

test('a picture is a 503 that names the package, however often it is sent, and other uploads work', async () => {
  for (let i = 0; i < 2; i++) {
    const { status, body } = await send('picture', Buffer.from('89504e470d0a1a0a0000000d', 'hex'))
    assert.deepEqual(
      [status, JSON.parse(body.toString())],
      [503, { error: "pictures need the package 'sharp': run 'npm install sharp' beside galatea" }],
    )
  }
  assert.equal((await send('words', 'hello')).status, 200)
})

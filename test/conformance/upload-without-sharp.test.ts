// What a client sees of /predict where the optional package for pictures is not installed.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import sharp from 'sharp'
import { answerWithCopy } from '../fakes/held-instance.ts'
import { inject } from '../fakes/injected-request.ts'
import { startHttpFixture } from './http-fixture.ts'

/** For the process that decodes pictures. */
const withoutSharp = `import { registerHooks } from 'node:module'
registerHooks({ resolve: (specifier, context, next) => {
  if (specifier !== 'sharp') return next(specifier, context)
  throw Object.assign(new Error("Cannot find package 'sharp'"), { code: 'ERR_MODULE_NOT_FOUND' })
} })`
process.env['NODE_OPTIONS'] = `--import=data:text/javascript,${encodeURIComponent(withoutSharp)}`
const model = (type: string, dims: string, kind: string) => ({
  config: `input { name: "IN" data_type: TYPE_${type} dims: [ ${dims} ] } output { name: "OUT" data_type: TYPE_${type} dims: [ ${dims} ] }
    parameters { key: "predict" value { string_value: "${kind}" } }`,
  run: answerWithCopy,
})
const fixture = await startHttpFixture(
  {},
  { picture: model('UINT8', '1, 2, 2', 'image'), words: model('STRING', '1', 'text') },
)
after(() => fixture.close())

const send = (name: string, body: Buffer | string): ReturnType<typeof inject> =>
  inject(fixture.frontend, { method: 'POST', path: `/v2/models/${name}/predict`, body })

test('a picture is a 503 that names the package, other uploads work, and pictures do once the package is there', async () => {
  for (let i = 0; i < 2; i++) {
    const { status, body } = await send('picture', Buffer.from('89504e470d0a1a0a0000000d', 'hex'))
    assert.deepEqual(
      [status, JSON.parse(body.toString())],
      [503, { error: "pictures need the package 'sharp': run 'npm install sharp' beside galatea" }],
    )
  }
  assert.equal((await send('words', 'hello')).status, 200)
  delete process.env['NODE_OPTIONS']
  const png = await sharp({ create: { width: 2, height: 2, channels: 3, background: '#fff' } })
    .png()
    .toBuffer()
  assert.equal((await send('picture', png)).status, 200)
})

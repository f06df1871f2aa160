// The example pipeline as a user has it: three networks and four TypeScript models as one ensemble.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import test from 'node:test'
import { createHttpClient } from '../../src/client/node.ts'
import { encodeGreyPng } from '../../examples/images/draw-digits.ts'
import { projectRoot, startServerProcess } from './server-process.ts'

const example = path.join(projectRoot, 'examples/ocr')

test('a picture goes in and the words in it come out, with their places', async (context) => {
  const repository = mkdtempSync(path.join(tmpdir(), 'galatea-ocr-'))
  cpSync(path.join(example, 'models'), repository, { recursive: true })
  execFileSync(process.execPath, [path.join(example, 'get-models.ts'), repository])
  const server = await startServerProcess([`--model-repository=${repository}`])
  context.after(async () => {
    await server.stop()
    rmSync(repository, { recursive: true })
  })
  const client = createHttpClient({ url: server.url })
  const picture = readFileSync(path.join(example, 'receipt.png'))
  const ask = (image: Uint8Array, outputs: readonly string[] = []) =>
    client.infer('ocr', { IMAGE: { data: [image], shape: [1] } }, { outputs })

  await context.test('lines are in reading order, one of them is upside down', async () => {
    const answer = await ask(picture)
    assert.deepEqual(answer.output('TEXT').strings(), [
      'Galatea serves models',
      'Invoice 2024-117',
      'Total 42.50',
      'This line stands on its head',
      'Pygmalion carved her in ivory',
    ])
    for (const confidence of answer.output('CONFIDENCE').data) assert.ok(Number(confidence) > 0.9)
    const [left, top, right, bottom] = [...answer.output('BOX').data].map(Number)
    const around = `${left} ${top} ${right} ${bottom}`
    // The first line is drawn from 40, 38 to 406, 71.
    assert.ok(left !== undefined && left > 25 && left < 42, around)
    assert.ok(top !== undefined && top > 20 && top < 42, around)
    assert.ok(right !== undefined && right > 400 && right < 425, around)
    assert.ok(bottom !== undefined && bottom > 65 && bottom < 85, around)
  })

  await context.test('a picture as base64 text, of which one output is asked for', async () => {
    const answer = await ask(Buffer.from(picture.toString('base64')), ['TEXT'])
    assert.equal(answer.output('TEXT').strings().length, 5)
    assert.deepEqual(
      answer.outputs.map(({ name }) => name),
      ['TEXT'],
    )
  })

  await context.test('several pictures at once', async () => {
    const answers = await Promise.all([picture, picture, picture].map((image) => ask(image)))
    for (const answer of answers) assert.equal(answer.output('TEXT').strings()[1], 'Invoice 2024-117')
  })

  await context.test('a picture without text has no words', async () => {
    const blank = encodeGreyPng(new Uint8Array(96 * 64).fill(255), 96, 64)
    const answer = await ask(blank)
    assert.deepEqual(answer.output('TEXT').strings(), [])
    assert.deepEqual(answer.output('BOX').shape, [0, 4])
  })

  await context.test('what is no picture is refused by the step that reads it', async () => {
    await assert.rejects(ask(Buffer.from('no picture')), /in ensemble 'ocr', .*not a PNG file/)
  })

  await context.test('every step counts what it did', async () => {
    const names = [
      'ocr',
      'ocr_image',
      'ocr_detect',
      'ocr_crop',
      'ocr_classify',
      'ocr_turn',
      'ocr_recognise',
      'ocr_text',
    ]
    for (const name of names) {
      const response = await fetch(`${server.url}/v2/models/${name}/stats`)
      const { model_stats: found } = (await response.json()) as { model_stats: { inference_count: number }[] }
      assert.equal(found[0]?.inference_count, 6, name)
    }
  })
})

test('the two examples that read PNG files have the same reader', () => {
  const read = (file: string): string => readFileSync(path.join(projectRoot, 'examples', file), 'utf8')
  assert.equal(read('ocr/models/ocr_image/1/png.ts'), read('models/digit_image/1/png.ts'))
})

// The handlers that come with TorchServe run as they are, out of archives that name them: image_classifier, object_detector, text_classifier.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { temporaryRepository } from '../../fixtures/temporary-repository.ts'
import { requireTool } from '../../tool.ts'
import { startServerProcess, type ServerProcess } from '../server-process.ts'
import { photograph, sitePackages } from './photographs.ts'

const python = await requireTool('python-pytorch')
const packages = sitePackages(await requireTool('picture-models'))
const flower = photograph(await requireTool('python-sklearn'), 'flower.jpg')

/** The operators of torchvision are built for CUDA. Its transforms, which the handlers use, need to know that there are such. */
const operators = `
import importlib.util
if importlib.util.find_spec("torchvision"):
    import torch
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
`

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let server: ServerProcess
let expected = ''

before(prepare, { timeout: 300_000 })

async function prepare(): Promise<void> {
  repository = await temporaryRepository({ 'shim/sitecustomize.py': operators, 'store/README': 'archives' })
  const { root } = repository
  const interpreter = path.join(root, 'python')
  const paths = [path.join(root, 'shim'), packages].join(':')
  await writeFile(
    interpreter,
    `#!/bin/sh\nPYTHONPATH="${paths}:$PYTHONPATH" PYTHONWARNINGS=ignore exec "${python}" "$@"\n`,
  )
  await chmod(interpreter, 0o755)
  const program = path.join(import.meta.dirname, 'make_archives.py')
  const { stdout } = await promisify(execFile)(interpreter, [program, path.join(root, 'store'), flower])
  expected = stdout.trim().split('\n').at(-1) ?? ''
  const names = ['classifier', 'detector', 'words', 'insights']
  server = await startServerProcess([
    '--allow-torchserve',
    '--allow-grpc=false',
    '--allow-metrics=false',
    ...['inference', 'management', 'metrics'].map((port) => `--torchserve-${port}-port=0`),
    ...['inference', 'management'].map((port) => `--torchserve-grpc-${port}-port=none`),
    `--torchserve-model-store=${path.join(root, 'store')}`,
    ...names.map((name) => `--torchserve-model=${name}.mar`),
    `--backend-config=torchserve,interpreter=${interpreter}`,
  ])
}

after(async () => {
  await server?.stop()
  await repository?.remove()
})

async function predict(model: string, body: NonNullable<RequestInit['body']>, path = 'predictions'): Promise<unknown> {
  const url = `http://${server.furtherAddress('TorchServe inference')}/${path}/${model}`
  const answer = await fetch(url, { method: 'POST', body })
  const text = await answer.text()
  assert.equal(answer.status, 200, text)
  return JSON.parse(text)
}

test('image_classifier finds what PyTorch finds', async () => {
  const classes = (await predict('classifier', await readFile(flower))) as Record<string, number>
  assert.equal(Object.keys(classes).length, 5)
  assert.equal(Object.keys(classes)[0], expected)
})

test('object_detector tells boxes with labels and scores above its threshold', async () => {
  const found = (await predict('detector', await readFile(flower))) as { thing?: number[]; score: number }[]
  assert.equal(found.length, 1)
  assert.equal(found[0]?.thing?.length, 4)
  assert.ok(Math.abs((found[0]?.score ?? 0) - 0.9) < 1e-6)
})

test('text_classifier reads words and pairs of words', async () => {
  const moods = (await predict('words', 'I love it')) as Record<string, number>
  assert.deepEqual(Object.keys(moods).sort(), ['bad', 'good'])
  assert.ok((moods['good'] ?? 0) > 0.9)
})

test('a handler that has insights explains, with the target that the client names', async () => {
  assert.equal(await predict('insights', '3'), 6)
  const explained = await predict('insights', new URLSearchParams({ data: '3', target: '1' }), 'explanations')
  assert.deepEqual(explained, { of: 3, target: 1, weights: [[3]] })
  assert.deepEqual(await predict('insights/1.0', '4', 'explanations'), { of: 4, target: 0, weights: [[4]] })
})

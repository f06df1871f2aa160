// The examples that need models out of packages, on one server: what their clients print is what the models know.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { createHttpClient } from '../../src/client/node.ts'
import { requireTool } from '../tool.ts'
import { sitePackages } from './pictures/photographs.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const packages = await requireTool('example-models')
const sklearn = await requireTool('python-sklearn')

const run = promisify(execFile)
const examples = path.join(projectRoot, 'examples')
const models = await mkdtemp(path.join(tmpdir(), 'galatea-examples-'))
const site = sitePackages(packages)
let server: ServerProcess

before(prepare, { timeout: 240_000 })

async function prepare(): Promise<void> {
  for (const name of ['embeddings', 'faces', 'customer-service', 'patterns', 'penguins']) {
    await cp(path.join(examples, name, 'models'), models, { recursive: true })
  }
  await cp(path.join(models, 'device'), path.join(models, 'pipe'), { recursive: true })
  const config = await readFile(path.join(models, 'device/config.pbtxt'), 'utf8')
  const piped = config.replace('name: "device"', 'name: "pipe"').replaceAll('/dev/urandom', path.join(models, '.pipe'))
  await writeFile(path.join(models, 'pipe/config.pbtxt'), piped)
  await run('mkfifo', [path.join(models, '.pipe')])
  const penguins = path.join(site, 'palmerpenguins/data/penguins.csv')
  const [, , , trained] = await Promise.all([
    run(packages, [path.join(examples, 'embeddings/get_models.py'), models]),
    run(packages, [path.join(examples, 'faces/get_models.py'), models]),
    run(sklearn, [path.join(examples, 'customer-service/train.py'), models]),
    run(sklearn, [path.join(examples, 'penguins/train.py'), models, penguins]),
  ])
  assert.match(trained.stdout, /right on 104 penguins that it has not seen: (9\d|100)/)
  const interpreters = { python: packages, sklearn }
  const flags = Object.entries(interpreters).map(
    ([backend, python]) => `--backend-config=${backend},interpreter=${python}`,
  )
  server = await startServerProcess([`--model-repository=${models}`, ...flags])
}

after(async () => {
  await server?.stop()
  await rm(models, { recursive: true, force: true })
})

/** The library of the package, with the files that it carries. It asks the network for its tokenizer when it finds them itself. */
const library = `
import json, os, sys, wordllama
from safetensors.numpy import load_file
from tokenizers import Tokenizer
from wordllama.inference import WordLlamaInference
folder = os.path.dirname(wordllama.__file__)
tokenizer = Tokenizer.from_file(folder + "/tokenizers/l2_supercat_tokenizer_config.json")
table = load_file(folder + "/weights/l2_supercat_256.safetensors")["embedding.weight"]
print(json.dumps(WordLlamaInference(table, tokenizer).embed(json.loads(sys.argv[1]), norm=True).tolist()))
`

/** What the client of an example prints. */
async function client(file: string, ...args: string[]): Promise<string> {
  return (await run(process.execPath, [path.join(examples, file), ...args])).stdout
}

test('embeddings: the nearest question is the one that means the same, and the numbers are those of the library', async () => {
  assert.match(
    await client('embeddings/nearest.ts', 'I cannot log in any more', server.url),
    /^0\.\d+ {2}How do I reset my password\?/,
  )
  assert.match(
    await client('embeddings/nearest.ts', 'Give me a refund', server.url),
    /^0\.\d+ {2}How can I get my money back\?/,
  )
  const texts = ['A cat sat on the mat.', 'größer']
  const { stdout } = await run(packages, ['-c', library, JSON.stringify(texts)])
  const expected = (JSON.parse(stdout) as number[][]).flat()
  const answer = await createHttpClient({ url: server.url }).infer('embed', {
    TEXT: { data: texts, shape: [2, 1] },
  })
  const found = answer.output('EMBEDDING').float32()
  assert.equal(found.length, 512)
  for (const [index, value] of found.entries())
    assert.ok(Math.abs(value - (expected[index] ?? NaN)) < 1e-3, `${index}: ${value}`)
})

test('faces: the face of an astronaut is found where it is, a cat has none', async () => {
  const told = await client('faces/find.ts', path.join(site, 'skimage/data/astronaut.png'), server.url)
  const [, left, top, right, bottom, eyeX, eyeY] =
    /^(?:9\d|100)\.\d % face at (\d+) (\d+) (\d+) (\d+), an eye at (\d+) (\d+)\n/.exec(told) ?? []
  const near = (value: string | undefined, expected: number): void =>
    assert.ok(Math.abs(Number(value) - expected) < 20, `${told}expected ${expected}, got ${value}`)
  near(left, 175)
  near(top, 60)
  near(right, 270)
  near(bottom, 178)
  near(eyeX, 204)
  near(eyeY, 100)
  const cat = await client('faces/find.ts', path.join(site, 'skimage/data/chelsea.png'), server.url)
  assert.equal(cat, '')
  const nothing = createHttpClient({ url: server.url }).infer('faces', { IMAGE: { data: ['no picture'], shape: [1] } })
  await assert.rejects(nothing, /IMAGE cannot be read/)
})

test('customer service: ensemble and calls give the same answers; only the ensemble runs both branches', async () => {
  const told = await client('customer-service/talk.ts', server.url)
  assert.match(told, /Where is my order 1003\?\n {2}order: Order 1003 arrives tomorrow\./)
  assert.match(told, /I forgot my password\n {2}question: Choose 'I forgot my password'/)
  assert.match(told, /Do you ship to Spain\?\n {2}question: We ship to all countries of Europe\./)
  assert.match(told, /My order is late\n {2}order: Which order\? Please write its number\./)
  assert.match(told, /Did order 4711 leave\?\n {2}order: Order 4711 is not known to us\./)
  const asked = Object.fromEntries(
    [...told.matchAll(/^(\w+) +(\d+) +[\d.]+ +[\d.]+$/gm)].map(([, step, count]) => [step, Number(count)]),
  )
  assert.deepEqual(asked, { service: 6, service_bls: 6, intent: 12, orders: 9, questions: 9, choose: 6 })
  const metrics = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  assert.match(metrics, /^orders_connections_opened\{[^}]*\} 1$/m)
})

test('patterns: many requests are gathered into one answer', async () => {
  const told = await client('patterns/gather.ts', server.grpcAddress)
  assert.equal(told, 'part 2 brought the answer: the mean of 6 numbers is 4\n')
})

test('patterns: a device file is read, and what cannot be read is an error of its request', async () => {
  const read = (count: number, model = 'device') =>
    createHttpClient({ url: server.url }).infer(model, { COUNT: { data: Int32Array.of(count), shape: [1] } })
  const [one, other] = await Promise.all([read(32), read(32)])
  const digest = (answer: Awaited<ReturnType<typeof read>>): string =>
    createHash('sha256').update(answer.output('BYTES').bytes).digest('hex')
  assert.deepEqual(one.output('BYTES').shape, [32])
  assert.notEqual(digest(one), digest(other))
  await assert.rejects(read(0), /COUNT must be from 1 to 65536, got 0/)
  // A pipe in place of the device: it says what its writer writes, and nothing when there is none.
  await assert.rejects(read(4, 'pipe'), /said nothing for 1 s/)
  await writeFile(path.join(models, '.pipe'), 'data')
  assert.equal(Buffer.from((await read(4, 'pipe')).output('BYTES').bytes).toString(), 'data')
})

test('penguins: rows with texts and missing values are classified', async () => {
  assert.match(
    await client('penguins/classify.ts', server.url),
    /^Adelie 1\.00\nGentoo [\d.]+\n(Adelie|Chinstrap) [\d.]+\n$/,
  )
})

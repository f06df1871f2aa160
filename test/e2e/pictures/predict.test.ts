// examples/photo-labels, a real classifier, and real photographs: what /predict and `galatea predict` say is what PyTorch says of the same pictures.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { temporaryRepository } from '../../fixtures/temporary-repository.ts'
import { requireTool } from '../../tool.ts'
import { until } from '../../until.ts'
import { projectRoot, startServerProcess, type ServerProcess } from '../server-process.ts'
import { photograph, sitePackages } from './photographs.ts'

const run = promisify(execFile)
const python = await requireTool('python-pytorch')
const packages = await requireTool('picture-models')
const photographs = await requireTool('python-sklearn')
const example = path.join(projectRoot, 'examples/photo-labels')
type Classes = readonly (readonly [label: string, score: number])[]

let repository: Awaited<ReturnType<typeof temporaryRepository>>
let server: ServerProcess
let expected: Classes[]
const files = [photograph(photographs, 'flower.jpg'), photograph(photographs, 'china.jpg')]

before(prepare, { timeout: 300_000 })

async function prepare(): Promise<void> {
  repository = await temporaryRepository({ 'models/README': 'one classifier' })
  const folder = path.join(repository.root, 'models/photos')
  const env = { ...process.env, PYTHONPATH: sitePackages(packages), PYTHONWARNINGS: 'ignore' }
  const { stdout } = await run(python, [path.join(example, 'export.py'), folder, ...files], {
    env,
  })
  expected = stdout.split('\n').filter((line) => line.startsWith('[')).map((line) => JSON.parse(line) as Classes) // prettier-ignore
  const flags = ['--predict-max-pixels=1000000', '--allow-grpc=false', '--allow-metrics=false']
  server = await startServerProcess([`--model-repository=${path.join(repository.root, 'models')}`, ...flags])
}

after(async () => {
  await server?.stop()
  await repository?.remove()
})

type Answer = {
  readonly error?: string
  readonly predictions?: readonly { readonly classes: readonly { readonly label: string; readonly score: number }[] }[]
}

async function predict(body: Uint8Array<ArrayBuffer>, query = ''): Promise<Answer> {
  const answer = await fetch(`${server.url}/predict${query}`, { method: 'POST', body })
  return (await answer.json()) as Answer
}

test('a model without a hint is refused; the three lines that the answer names are enough, without a reload', async () => {
  const bytes = await readFile(files[0] as string)
  const { error = '' } = await predict(bytes)
  const lines = /\n(predict:\n {2}kind: image\n {2}size: 224)\n/.exec(error)?.[1]
  assert.ok(lines !== undefined, error)
  await writeFile(path.join(repository.root, 'models/photos/galatea.yaml'), lines)
  assert.equal((await predict(bytes)).predictions?.[0]?.classes.length, 5)
})

test('the classes and their probabilities are those of PyTorch, whatever the format', async () => {
  const hint = await readFile(path.join(example, 'models/photos/galatea.yaml'), 'utf8')
  await writeFile(path.join(repository.root, 'models/photos/galatea.yaml'), hint)
  const best = async (): Promise<number> =>
    (await predict(await readFile(files[0] as string))).predictions?.[0]?.classes[0]?.score ?? 0
  // Scores become probabilities once the server has seen the new file; the server looks once a second.
  await until(async () => Math.abs((await best()) - (expected[0]?.[0]?.[1] ?? 0)) < 0.05, 'the new hint')
  for (const [i, file] of files.entries()) {
    const jpeg = await readFile(file)
    const forms = {
      jpeg,
      png: await sharp(jpeg).png().toBuffer(),
      webp: await sharp(jpeg).webp({ lossless: true }).toBuffer(),
    }
    for (const [form, bytes] of Object.entries(forms)) {
      const { error, predictions } = await predict(new Uint8Array(bytes))
      assert.equal(error, undefined)
      const [best, second] = predictions?.[0]?.classes ?? []
      const [wanted, next] = expected[i] ?? []
      assert.equal(best?.label, wanted?.[0], `${file} as ${form}`)
      assert.ok(Math.abs((best?.score ?? 0) - (wanted?.[1] ?? 0)) < 0.05, `${best?.score} and ${wanted?.[1]}`)
      if ((next?.[1] ?? 0) > 0.1) assert.equal(second?.label, next?.[0])
    }
  }
})

test('galatea predict uploads a folder, and writes lines and a table', async () => {
  const folder = path.join(repository.root, 'photographs')
  await mkdir(folder)
  const flower = await readFile(files[0] as string)
  for (let i = 0; i < 12; i++) await writeFile(path.join(folder, `flower-${i}.jpg`), flower)
  await writeFile(path.join(folder, 'large.png'), await sharp({ create: { width: 1001, height: 1000, channels: 3, background: '#fff' } }).png().toBuffer()) // prettier-ignore
  await writeFile(path.join(folder, 'notes.txt'), 'no picture')
  const [csv, jsonl] = [path.join(repository.root, 'out.csv'), path.join(repository.root, 'out.jsonl')]
  const options = ['--model', 'photos', '--url', server.address, '--top-k', '2', '--csv', csv, '--jsonl', jsonl]
  const command = [path.join(projectRoot, 'bin/galatea.js'), 'predict', ...options, '-c', '4', folder]
  const failed = await run(process.execPath, command).then(
    () => assert.fail('two of the files are no good'),
    (reason: unknown) => reason as { code: number; stdout: string; stderr: string },
  )
  assert.equal(failed.code, 1)
  assert.match(failed.stderr, /notes\.txt: the upload is no picture/)
  assert.match(failed.stderr, /large\.png: the picture has more than 1000000 pixels/)
  const names = ['Total +14', 'Concurrency +4', 'Avg +\\d', 'P99 +\\d', 'Throughput +\\d', 'Success +12 \\(85\\.7 %\\)']
  for (const name of names) assert.match(failed.stdout, new RegExp(`^${name}`, 'm'))
  const lines = (await readFile(jsonl, 'utf8')).trim().split('\n').map((line) => JSON.parse(line) as { file: string; error?: string; classes?: unknown[] }) // prettier-ignore
  assert.equal(lines.filter(({ classes }) => classes?.length === 2).length, 12)
  assert.equal(lines.filter(({ error }) => error !== undefined).length, 2)
  const rows = (await readFile(csv, 'utf8')).trim().split('\n')
  assert.equal(rows.length, 15)
  assert.equal(rows[0], 'file,latency_ms,label,index,score,classes,error')
  assert.equal(rows.filter((row) => row.includes(`,${expected[0]?.[0]?.[0]},`)).length, 12)
})

import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import { DiskPieces } from './piece-reader.ts'
import { FileInput, fittingNames, filesOf } from './file-input.ts'
import { FileOutput, outputInside, refuseOwnInput } from './file-output.ts'

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-files-'))
  t.after(() => rm(folder, { recursive: true }))
  return folder
}

test('a pattern names files of one folder, in the order of their names', async (t) => {
  const folder = await folderOf(t)
  await mkdir(path.join(folder, 'in'))
  for (const name of ['b.jsonl', 'a.jsonl', 'c.txt', 'a.jsonl.gz']) await writeFile(path.join(folder, 'in', name), '')
  await symlink('/etc/passwd', path.join(folder, 'in', 'x.link'))
  const names = async (pattern: string): Promise<string[]> =>
    (await filesOf(folder, pattern)).map((file) => path.basename(file))
  assert.deepEqual(await names('in/*.jsonl'), ['a.jsonl', 'b.jsonl'])
  assert.deepEqual(await names('in/a*'), ['a.jsonl', 'a.jsonl.gz'])
  assert.deepEqual(await names('in/c.txt'), ['c.txt'])
  const refusals: [pattern: string, reason: RegExp][] = [
    ['in/*.none', /there is no file/],
    ['*/a.jsonl', /at most one \*, in the name/],
    ['in/*a*', /at most one \*/],
    ['../x', /leads out of/],
    ['../*', /leads out of/],
    ['in/*.link', /leads out of/],
    ['nowhere/*', /there is no file/],
  ]
  for (const [pattern, reason] of refusals) await assert.rejects(filesOf(folder, pattern), reason, pattern)
  const many = Array.from({ length: 100_001 }, (_, i) => `${i}.x`)
  assert.throws(
    () => fittingNames(many, '*.x'),
    /names more than 100000 files, which is the most that can be read by one job/,
  )
})

test('lines go on over the ends of reads and of files, from any position', async (t) => {
  const folder = await folderOf(t)
  const long = 'x'.repeat(300_000)
  await writeFile(path.join(folder, 'a'), `1\n${long}\n\n3`)
  await writeFile(path.join(folder, 'b'), '4\r\n')
  const files = [path.join(folder, 'a'), path.join(folder, 'b')]
  const all = async (input: FileInput): Promise<string[]> => {
    const found: string[] = []
    for (let items = await input.next(2); items !== null; items = await input.next(2)) {
      for (const { line, at } of items) found.push(`${at} ${line.toString().trim().slice(0, 3)} ${line.length}`)
      await input.done(items)
    }
    await input.close()
    return found
  }
  const input = new FileInput(new DiskPieces(files, path.basename), null)
  assert.deepEqual(await all(input), ['a:1 1 1', 'a:2 xxx 300000', 'a:4 3 1', 'b:1 4 2'])
  assert.deepEqual(input.position(), { file: 1, offset: 3, line: 1 })
  const from = { file: 0, offset: 2, line: 1, outputBytes: 0 }
  assert.deepEqual(await all(new FileInput(new DiskPieces(files, path.basename), from)), [
    'a:2 xxx 300000',
    'a:4 3 1',
    'b:1 4 2',
  ])
})

test('a byte order mark before the first line of a file is no part of the line', async (t) => {
  const folder = await folderOf(t)
  await writeFile(path.join(folder, 'a'), '\ufeff{"id":1}\n\ufeff2\n')
  await writeFile(path.join(folder, 'b'), '\ufeff\n\ufeff3')
  await writeFile(path.join(folder, 'c'), '\ufeff4')
  const files = ['a', 'b', 'c'].map((name) => path.join(folder, name))
  const input = new FileInput(new DiskPieces(files, path.basename), null)
  const found: string[] = []
  for (let items = await input.next(9); items !== null; items = await input.next(9)) {
    found.push(...items.map(({ at, line }) => `${at} ${line.toString()}`))
    await input.done(items)
  }
  await input.close()
  assert.deepEqual(found, ['a:1 {"id":1}', 'a:2 \ufeff2', 'b:2 \ufeff3', 'c:1 4'])
  assert.deepEqual(input.position(), { file: 2, offset: 4, line: 1 })
})

test('an output is cut back to what is known of it, stays inside its folder, and is bounded', async (t) => {
  const folder = await folderOf(t)
  const file = await outputInside(folder, 'deep/out.jsonl')
  await writeFile(file, 'old text')
  const output = await FileOutput.open(file, 3, 8)
  await output.write(['ab\n'])
  assert.equal(await readFile(file, 'utf8'), 'oldab\n')
  await assert.rejects(output.write(['abc']), /more than 8 bytes, which is the most that the server keeps/)
  await output.close()
  await assert.rejects(FileOutput.open(file, 100), /has 6 bytes, but 100 were written to it/)
  await symlink('/tmp', path.join(folder, 'away'))
  await assert.rejects(outputInside(folder, 'away/x'), /leads out of/)
  await assert.rejects(outputInside(folder, '../x'), /leads out of/)
})

test('a job does not write what it reads, now or in its next run', async (t) => {
  const folder = await folderOf(t)
  await mkdir(path.join(folder, 'in'))
  for (const name of ['in/a.jsonl', 'in/b.txt']) await writeFile(path.join(folder, name), '')
  await symlink('in/a.jsonl', path.join(folder, 'link'))
  const refusal = async (pattern: string, output: string): Promise<void> =>
    refuseOwnInput(pattern, await filesOf(folder, pattern), output, await outputInside(folder, output))
  const refused = [['in/a.jsonl', 'in/a.jsonl'], ['in/a.jsonl', './in//a.jsonl'], ['in/*.jsonl', 'in/a.jsonl'], ['in/*.jsonl', 'in/later.jsonl'], ['in/a.jsonl', 'link'], ['link', 'in/a.jsonl']] as const // prettier-ignore
  for (const [pattern, output] of refused) await assert.rejects(refusal(pattern, output), /is one of the files that the job reads/, `${pattern} ${output}`) // prettier-ignore
  for (const output of ['a.jsonl', 'in/b.txt', 'in/out', 'in/deep/x.jsonl']) await refusal('in/*.jsonl', output)
  refuseOwnInput('', [], 's3://b/out.jsonl', '')
  assert.throws(
    () => refuseOwnInput('s3://b/*.jsonl', [], 's3://b/out.jsonl', ''),
    /one of the files that the job reads/,
  )
})

test('no folder is made behind a link that leads out of the root', async (t) => {
  const folder = await folderOf(t)
  const outside = await folderOf(t)
  await symlink(outside, path.join(folder, 'link'))
  await writeFile(path.join(folder, 'file'), '')
  await assert.rejects(outputInside(folder, 'link/made/deep/out'), /leads out of/)
  assert.deepEqual(await readdir(outside), [])
  await assert.rejects(outputInside(folder, 'file/out'), { code: 'INVALID_ARG', message: /has no folder, and none can be made/ }) // prettier-ignore
  assert.equal(await outputInside(folder, 'new/deep/out'), path.join(folder, 'new/deep/out'))
})

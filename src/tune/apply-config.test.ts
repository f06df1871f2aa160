import assert from 'node:assert/strict'
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { applyChange, planChange, whyNotWritable } from './apply-config.ts'

const text = '# ours\nmax_batch_size: 8\ninput { name: "A" }\n'
const config = {
  backend: 'python',
  max_batch_size: 8,
  instance_group: [{ kind: 'KIND_CPU', count: 1 }],
}
const wanted = { maxBatchSize: 16, delayUs: null, instances: 1 }

let models: string
before(async () => (models = await mkdtemp(path.join(tmpdir(), 'galatea-apply-'))))
after(() => rm(models, { recursive: true, force: true }))

async function makeModel(name: string): Promise<string> {
  const folder = path.join(models, name)
  await mkdir(folder)
  await writeFile(path.join(folder, 'config.pbtxt'), text)
  return folder
}

test('the file is replaced whole, keeps its mode, and nothing is left beside it', async () => {
  const folder = await makeModel('plain')
  await chmod(path.join(folder, 'config.pbtxt'), 0o640)
  await applyChange(planChange(models, 'plain', config, wanted), () => Promise.resolve())
  assert.equal(await readFile(path.join(folder, 'config.pbtxt'), 'utf8'), text.replace('8', '16'))
  assert.equal((await stat(path.join(folder, 'config.pbtxt'))).mode & 0o777, 0o640)
  assert.deepEqual(await readdir(folder), ['config.pbtxt'])
})

test('a link stays a link', async () => {
  const folder = await makeModel('linked')
  await writeFile(path.join(folder, 'ours.pbtxt'), text)
  await rm(path.join(folder, 'config.pbtxt'))
  await symlink('ours.pbtxt', path.join(folder, 'config.pbtxt'))
  await applyChange(planChange(models, 'linked', config, wanted), () => Promise.resolve())
  assert.equal((await lstat(path.join(folder, 'config.pbtxt'))).isSymbolicLink(), true)
  assert.equal(await readFile(path.join(folder, 'ours.pbtxt'), 'utf8'), text.replace('8', '16'))
})

test('a file that the model does not load with is taken back, and one that was not there goes', async () => {
  const refuse = (): Promise<void> => Promise.reject(new Error('no such batch'))
  const folder = await makeModel('refused')
  await assert.rejects(applyChange(planChange(models, 'refused', config, wanted), refuse), /no such batch/)
  assert.equal(await readFile(path.join(folder, 'config.pbtxt'), 'utf8'), text)
  await rm(path.join(folder, 'config.pbtxt'))
  await assert.rejects(applyChange(planChange(models, 'refused', config, wanted), refuse), /no such batch/)
  assert.deepEqual(await readdir(folder), [])
})

test('nothing is changed when the model has what is wanted, whether in its file or by completion', async () => {
  await makeModel('settled')
  const now = { maxBatchSize: 8, delayUs: null, instances: 1 }
  assert.equal(planChange(models, 'settled', config, now).diff, '')
  assert.equal(planChange(models, 'absent', config, now).diff, '')
})

test('where nothing can be written is known before anything is measured', async () => {
  await makeModel('ready')
  assert.equal(await whyNotWritable(models, 'ready'), '')
  assert.match(await whyNotWritable(models, 'typo'), /there is no folder 'typo' in /)
  assert.match(await whyNotWritable('s3://bucket/models', 'ready'), /is not on this machine/)
  // A system that says no, whoever asks.
  assert.match(await whyNotWritable('/proc', 'self'), /EACCES|ENOENT|EPERM/)
  assert.deepEqual(await readdir(path.join(models, 'ready')), ['config.pbtxt'])
})

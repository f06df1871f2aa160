// Which Python runs a model, and which model.py.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { PythonModels, testPython, textConfig, textModel } from './python-models-under-test.ts'

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'galatea-environments-'))
after(() => fs.rmSync(folder, { recursive: true }))

const tellEnvironment = textModel(
  'def execute(self, requests):\n    return [answer(os.environ.get("WHICH", "default")) for _ in requests]',
)

/** Looks like an environment from the outside; inside it is the Python of the tests. */
function makeEnvironment(place: string, which: string): void {
  fs.mkdirSync(path.join(place, 'bin'), { recursive: true })
  const real = execFileSync(testPython, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim()
  fs.writeFileSync(path.join(place, 'bin', 'python3'), `#!/bin/sh\nWHICH=${which} exec ${real} "$@"\n`, { mode: 0o755 })
}

const withEnvironment = (value: string): string =>
  `${textConfig}parameters { key: "EXECUTION_ENV_PATH" value { string_value: "${value}" } }`

test('EXECUTION_ENV_PATH may be a folder or an archive; an archive is unpacked once for all models', async () => {
  makeEnvironment(path.join(folder, 'unpacked'), 'unpacked')
  makeEnvironment(path.join(folder, 'packed'), 'packed')
  execFileSync('tar', ['-czf', path.join(folder, 'packed.tar.gz'), '-C', path.join(folder, 'packed'), '.'])
  const cache = path.join(folder, 'cache')
  const models = await PythonModels.load(
    {
      in_folder: { code: tellEnvironment, config: withEnvironment(path.join(folder, 'unpacked')) },
      in_archive: { code: tellEnvironment, config: withEnvironment(path.join(folder, 'packed.tar.gz')) },
      in_same_archive: { code: tellEnvironment, config: withEnvironment(path.join(folder, 'packed.tar.gz')) },
      missing: { code: tellEnvironment, config: withEnvironment('/no/such/environment') },
      without: { code: tellEnvironment, config: textConfig },
    },
    { 'environment-directory': cache },
  )
  try {
    assert.equal(await models.say('in_folder', 'x'), 'unpacked')
    assert.equal(await models.say('in_archive', 'x'), 'packed')
    assert.equal(await models.say('in_same_archive', 'x'), 'packed')
    assert.equal(await models.say('without', 'x'), 'default')
    assert.match(models.failure('missing'), /Failed to get the canonical path for \/no\/such\/environment\.$/)
    assert.equal(fs.readdirSync(cache).length, 1)
  } finally {
    await models.close()
  }
})

test('$$TRITON_MODEL_DIRECTORY in EXECUTION_ENV_PATH is the model folder', async () => {
  const models = await PythonModels.load({
    own: { code: tellEnvironment, config: withEnvironment('$$TRITON_MODEL_DIRECTORY/environment') },
  })
  try {
    assert.match(models.failure('own'), new RegExp(`${models.folder}/own/environment`))
    makeEnvironment(path.join(models.folder, 'own', 'environment'), 'own')
    await models.engine.load('own')
    assert.equal(await models.say('own', 'x'), 'own')
  } finally {
    await models.close()
  }
})

test('requirements are installed only where a model asks for it, and their failure is the reason of the load', async () => {
  const models = await PythonModels.load(
    {
      asking: {
        code: tellEnvironment,
        config: `${textConfig}parameters { key: "AUTO_INSTALL_REQUIREMENTS" value { string_value: "yes" } }`,
      },
    },
    { 'environment-directory': path.join(folder, 'requirements') },
  )
  try {
    assert.match(models.failure('asking'), /there is no requirements.txt or pyproject.toml in/)
  } finally {
    await models.close()
  }
})

test('a Python without numpy is told, with the command that installs it', async () => {
  const place = path.join(folder, 'bare')
  fs.mkdirSync(place, { recursive: true })
  const real = execFileSync(testPython, ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim()
  // -S leaves out site-packages, and with it numpy.
  fs.writeFileSync(path.join(place, 'python3'), `#!/bin/sh\nPYTHONPATH= exec ${real} -S "$@"\n`, { mode: 0o755 })
  const models = await PythonModels.load(
    { bare: { code: tellEnvironment, config: textConfig } },
    { interpreter: path.join(place, 'python3') },
  )
  assert.match(models.failure('bare'), /has no numpy .*Install it with: \S+ -m pip install numpy/)
  await models.close()
})

test("a backend folder's model.py serves every model that names the backend", async () => {
  const backend = path.join(folder, 'backends', 'shared')
  fs.mkdirSync(backend, { recursive: true })
  const code = textModel(`
def initialize(self, args):
    self.name = args["model_name"]
    self.note = open(os.path.join(pb_utils.get_model_dir(), "note.txt")).read()
def execute(self, requests):
    return [answer(self.name + " " + self.note) for _ in requests]`)
  fs.writeFileSync(path.join(backend, 'model.py'), code)
  const config = textConfig.replace('backend: "python"', 'backend: "shared"')
  const models = await PythonModels.load({ one: { code: '', config }, two: { code: '', config } }, {}, backend)
  try {
    for (const name of ['one', 'two']) {
      fs.writeFileSync(path.join(models.folder, name, '1', 'note.txt'), `note of ${name}`)
      await models.engine.load(name)
      assert.equal(await models.say(name, 'x'), `${name} note of ${name}`)
    }
  } finally {
    await models.close()
  }
})

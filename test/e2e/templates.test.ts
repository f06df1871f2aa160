// What `galatea init --template`, `galatea init <folder of Hugging Face>` and `galatea new` make passes `galatea check` and serves.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { runCommandLine } from '../../src/cli/main.ts'
import { addSubModel, buildOnnx, identityModel } from '../fixtures/onnx/build-onnx.ts'
import { requireTool } from '../tool.ts'
import { sitePackages } from './pictures/photographs.ts'
import { testPython } from './python-checks.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

const torchPython = await requireTool('python-pytorch')
const transformers = sitePackages(await requireTool('python-transformers'))
const sklearnPython = await requireTool('python-sklearn')

const run = promisify(execFile)
const folder = await mkdtemp(path.join(tmpdir(), 'galatea-templates-'))
// The commands are typed as a user in this folder types them.
process.chdir(folder)
const models = path.join(folder, 'models')
/** PyTorch and transformers together. */
const huggingFacePython = path.join(folder, 'python')
const interpreters = { pytorch: torchPython, sklearn: sklearnPython, python: huggingFacePython }
const interpreterFlags = Object.entries(interpreters).map(
  ([backend, python]) => `--backend-config=${backend},interpreter=${python}`,
)

type Ended = { readonly status: number; readonly stdout: string; readonly stderr: string }

/** In this process: a start for each of thirty commands would take most of the time. */
async function galatea(...args: string[]): Promise<Ended> {
  let stdout = ''
  let stderr = ''
  const io = { stdout: (text: string) => void (stdout += text), stderr: (text: string) => void (stderr += text) }
  return { status: await runCommandLine(args, io), stdout, stderr }
}

async function succeeds(...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await galatea(...args)
  assert.equal(status, 0, stderr)
  return stdout
}

let server: ServerProcess
/** What init printed, by template. */
const printed = new Map<string, string>()

async function infer(model: string, body: string): Promise<Record<string, unknown[]>> {
  const response = await fetch(`${server.url}/v2/models/${model}/infer`, { method: 'POST', body })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  const { outputs } = JSON.parse(text) as { outputs: { name: string; data: unknown[] }[] }
  return Object.fromEntries(outputs.map(({ name, data }) => [name, data]))
}

/** The request that init printed to paste. */
const shownRequest = (template: string): string => /-d '(.*)'/.exec(printed.get(template) ?? '')?.[1] ?? ''

before(prepare, { timeout: 240_000 })

async function prepare(): Promise<void> {
  await writeFile(huggingFacePython, `#!/bin/sh\nPYTHONPATH="${transformers}:$PYTHONPATH" exec "${torchPython}" "$@"\n`)
  await chmod(huggingFacePython, 0o755)
  const pythons: Readonly<Record<string, string>> = {
    python: testPython(),
    typescript: 'python3',
    ensemble: 'python3',
    sklearn: sklearnPython,
    pytorch: torchPython,
    huggingface: huggingFacePython,
  }
  for (const [template, python] of Object.entries(pythons)) {
    const name = template === 'typescript' ? 'counted.words-1' : template
    const args = ['--template', template, '--python', python, '--name', name]
    printed.set(template, await succeeds('init', ...args))
  }
  const files = { numbers: addSubModel(), picture: identityModel('FP32', [null, 24, 24, 3]) }
  for (const [name, model] of Object.entries(files)) {
    await writeFile(`${name}.onnx`, buildOnnx(model))
    printed.set(name, await succeeds('init', `${name}.onnx`, '--repository', 'models'))
  }
  await succeeds('new', 'my-shop')
  await cp(path.join(folder, 'my-shop/models'), models, { recursive: true })
  server = await startServerProcess([`--model-repository=${models}`, ...interpreterFlags])
}

after(async () => {
  process.chdir(projectRoot)
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

test('what the templates make passes galatea check', async () => {
  assert.match(
    await succeeds('check', 'models', ...interpreterFlags),
    /^0 errors, 0 warnings in 11 models \(11 clean\)/,
  )
})

test('every template answers the request that init prints', async () => {
  assert.deepEqual((await infer('python', shownRequest('python')))['OUTPUT'], [0, 0.5, 1])
  assert.deepEqual(await infer('counted.words-1', shownRequest('typescript')), { WORDS: [3], CHARACTERS: [17] })
  assert.deepEqual(await infer('ensemble', shownRequest('ensemble')), { MOOD: ['good'], SCORE: [1] })
  assert.deepEqual((await infer('sklearn', shownRequest('sklearn')))['label'], ['setosa'])
  const [first] = (await infer('pytorch', shownRequest('pytorch')))['scores'] ?? []
  assert.ok(Number(first) > 0.9, String(first))
  const answer = await infer('huggingface', shownRequest('huggingface'))
  assert.deepEqual(answer['LABEL'], ['good'])
  assert.match(printed.get('sklearn') ?? '', /right on flowers that it has not seen: 9\d %/)
})

test('a model file answers the command that init prints, with zeros for many numbers', async () => {
  for (const [name, shape] of [
    ['numbers', [1, 16]],
    ['picture', [1, 24, 24, 3]],
  ] as const) {
    const command = /Ask it: +(.*)/.exec(printed.get(name) ?? '')?.[1]?.replace('localhost:8000', server.url) ?? ''
    const { stdout } = await run('sh', ['-c', command])
    const { outputs } = JSON.parse(stdout) as { outputs: { shape: number[] }[] }
    assert.deepEqual(outputs[0]?.shape, shape)
  }
})

test('a text file is uploaded to the model of Hugging Face', async () => {
  const response = await fetch(`${server.url}/v2/models/huggingface/predict`, { method: 'POST', body: 'an awful song' })
  const { predictions } = (await response.json()) as { predictions: { classes: { label: string; score: number }[] }[] }
  assert.equal(predictions[0]?.classes[0]?.label, 'bad')
})

describe('a folder of Hugging Face', () => {
  test('of text classification becomes what the template makes', async () => {
    await succeeds('init', 'models/huggingface/1', '--repository', 'others', '--name', 'huggingface')
    const read = (root: string, file: string): Promise<string> =>
      readFile(path.join(folder, root, 'huggingface', file), 'utf8')
    assert.equal(await read('others', '1/model.py'), await read('models', '1/model.py'))
    assert.equal(await read('others', 'labels.txt'), 'bad\ngood\n')
    assert.match(await read('others', 'config.pbtxt'), /output { name: "SCORES" data_type: TYPE_FP32 dims: \[ 2 \]/)
    assert.deepEqual((await readdir(path.join(folder, 'others/huggingface/1'))).sort(), [
      'config.json',
      'model.py',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ])
  })

  test('of another task has its own outputs, and answers as the library does', async () => {
    const program = path.join(projectRoot, 'templates/huggingface/my_model/1/model.py')
    const made = path.join(folder, 'folders')
    const maker = path.join(import.meta.dirname, 'hugging_face_folders.py')
    const { stdout } = await run(huggingFacePython, [maker, made, program])
    assert.match(stdout, /the same answers/)
    for (const name of await readdir(made)) await succeeds('init', path.join(made, name), '--repository', 'more')
    const configOf = (name: string): Promise<string> =>
      readFile(path.join(folder, 'more', name, 'config.pbtxt'), 'utf8')
    assert.match(await configOf('embedding'), /"EMBEDDING" data_type: TYPE_FP32 dims: \[ 16 \]/)
    assert.match(await configOf('names'), /"ENTITIES"/)
    assert.match(await configOf('pictures'), /"IMAGE"[\s\S]*"SCORES" data_type: TYPE_FP32 dims: \[ 3 \]/)
    assert.match(await succeeds('check', 'more', ...interpreterFlags), /^0 errors, 0 warnings in 3 models/)
  })

  const madeOf = async (config: object, ...files: string[]): Promise<string> => {
    const made = await mkdtemp(path.join(folder, 'folder-'))
    await writeFile(path.join(made, 'config.json'), JSON.stringify(config))
    for (const file of files) await writeFile(path.join(made, file), '')
    return made
  }

  test('of a language model is given to vLLM, where it lies', async () => {
    const made = await madeOf({ architectures: ['LlamaForCausalLM'] }, 'model.safetensors', 'tokenizer.json')
    assert.match(await succeeds('init', made, '--repository', 'chats', '--name', 'chat'), /run by vLLM/)
    const settings = await readFile(path.join(folder, 'chats/chat/1/model.json'), 'utf8')
    assert.deepEqual(JSON.parse(settings), { model: made })
  })

  test('that cannot be served is refused with what to do', async () => {
    const refused = async (pattern: RegExp, made: string): Promise<void> => {
      const { status, stderr } = await galatea('init', made, '--repository', 'none', '--name', 'none')
      assert.equal(status, 1)
      assert.match(stderr, pattern)
      assert.ok(!existsSync(path.join(folder, 'none')))
    }
    const bert = { architectures: ['BertForSequenceClassification'] }
    await refused(/a pickle.*save_pretrained/, await madeOf(bert, 'pytorch_model.bin', 'tokenizer.json'))
    await refused(/no files of a tokenizer/, await madeOf(bert, 'model.safetensors'))
    await refused(
      /its GGUF file: galatea init .*q4\.gguf/,
      await madeOf({ architectures: ['GPT2LMHeadModel'] }, 'q4.gguf'),
    )
    await refused(
      /WhisperForConditionalGeneration, which.*--template python/s,
      await madeOf({ architectures: ['WhisperForConditionalGeneration'] }, 'model.safetensors'),
    )
    await refused(/auto_map/, await madeOf({ ...bert, auto_map: {} }, 'model.safetensors', 'tokenizer.json'))
    await refused(
      /2_Dense/,
      await madeOf({ architectures: ['BertModel'] }, 'model.safetensors', 'tokenizer.json', '2_Dense'),
    )
  })
})

describe('galatea new', () => {
  test('makes a project whose test passes and whose client gets answers', async () => {
    const project = path.join(folder, 'my-shop')
    // In place of npm install: the package's doors, in this checkout.
    const installed = path.join(project, 'node_modules/galatea')
    await mkdir(installed, { recursive: true })
    const doors = {
      '.': 'src/index.ts',
      './client': 'src/client/node.ts',
      './model': 'src/backends/typescript/model-api.ts',
    }
    const exports: Record<string, string> = {}
    for (const [index, [door, source]] of Object.entries(doors).entries()) {
      const target = pathToFileURL(path.join(projectRoot, source)).href
      await writeFile(path.join(installed, `${index}.js`), `export * from '${target}'\n`)
      exports[door] = `./${index}.js`
    }
    await writeFile(path.join(installed, 'package.json'), JSON.stringify({ name: 'galatea', type: 'module', exports }))
    const manifest = JSON.parse(await readFile(path.join(project, 'package.json'), 'utf8')) as { name: string }
    assert.equal(manifest.name, 'my-shop')
    assert.ok(existsSync(path.join(project, '.gitignore')))
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const tested = await run(process.execPath, ['--test', 'test/mood.test.ts'], { cwd: project, env })
    assert.match(tested.stdout, /pass 2/)
    const asked = await run(process.execPath, ['client.ts'], { cwd: project, env: { ...env, SERVICE_URL: server.url } })
    assert.equal(asked.stdout, 'good: What a great day\nbad: It is slow and broken\n')
  })

  test('says why it makes nothing', async () => {
    const refused = async (pattern: RegExp, ...args: string[]): Promise<void> => {
      const { status, stderr } = await galatea('new', ...args)
      assert.equal(status, 1)
      assert.match(stderr, pattern)
    }
    await refused(/name the folder/)
    await refused(/'my-shop' is already there and not empty/, 'my-shop')
    await refused(/'My Shop' is no name for a package.*call it 'my-shop'/, 'My Shop')
    await refused(/no option '--force'/, 'shop', '--force')
  })
})

test('init says why it makes nothing of a template, and leaves nothing behind', async () => {
  const refused = async (pattern: RegExp, ...args: string[]): Promise<void> => {
    const { status, stderr } = await galatea('init', ...args)
    assert.equal(status, 1)
    assert.match(stderr, pattern)
  }
  await refused(/no template 'scikit-lern'; there are python, typescript/, '--template', 'scikit-lern')
  await refused(/did you mean 'sklearn'\?/, '--template', 'sklern')
  await refused(/'models\/ensemble' is already there.*--force/, '--template', 'ensemble')
  await refused(
    /needs transformers, .*: run '\S+ -m pip install transformers'/,
    '--template=huggingface',
    '--repository=no',
    `--python=${torchPython}`,
  )
  await refused(
    /cannot be started.*--python/,
    '--template',
    'sklearn',
    '--repository',
    'no',
    '--python',
    'no-such-python',
  )
  await refused(/a name of letters/, '--template', 'python', '--name', 'a b')
  await refused(/a model file or a --template/, '--template', 'python', 'model.onnx')
  assert.ok(!existsSync(path.join(folder, 'no')))
  await succeeds('init', '--template', 'ensemble', '--force')
})

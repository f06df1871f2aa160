// Runs what a document shows to paste, in the order in which a reader pastes it.
//
// Every ```sh and ```bash block is run, and every whole ```python client, except after `<!-- not run: why -->`. A line that starts a server (`galatea --flags`)
// starts a real one on free ports, in place of the one before; ports 8000, 8001 and 8002 in later lines are then its own. Blocks
// that begin with a comment naming a file (`// models/m/1/model.ts`) are written to that file first.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { testPython } from './python-checks.ts'
import { projectRoot, startServerProcess, type ServerProcess } from './server-process.ts'

type DocumentRun = {
  /** What the commands wrote, stdout and stderr, one entry per block and server. */
  readonly outputs: readonly string[]
  /** Lines that the document promises under a `$ command`. */
  readonly promised: readonly string[]
}

type DocumentSetting = {
  /** Makes what the document takes for granted: the reader's own models. */
  readonly prepare?: (folder: string) => Promise<void>
  readonly environment?: Readonly<Record<string, string>>
  /** Flags of a server that the document takes for granted. */
  readonly serve?: readonly string[]
  /** The interpreter for Python clients. */
  readonly python?: string
  /** A folder of programs that go before those of the PATH: the `python3` of a virtual environment. */
  readonly programs?: string
}

export type DocumentExpectation = DocumentSetting & {
  /** What the commands must write, in any order; one entry per time. */
  readonly answers: readonly RegExp[]
  /** Errors are part of what the page shows. */
  readonly showsErrors?: boolean
}

export function testDocument(file: string, expected: DocumentExpectation): void {
  const { answers, showsErrors, ...setting } = expected
  test(`${file}: what it shows to paste does what it says`, async () => {
    const environment = { GALATEA_BACKEND_CONFIG: `python,interpreter=${testPython()}` }
    const { outputs, promised } = await runDocument(file, { environment, python: testPython(), ...setting })
    const output = outputs.join('\n')
    for (const line of promised) assert.ok(output.includes(line), `expected this line:\n${line}\ngot:\n${output}`)
    for (const answer of new Set(answers.map(({ source }) => source))) {
      const times = answers.filter(({ source }) => source === answer).length
      const found = [...output.matchAll(new RegExp(answer, 'gm'))].length
      assert.ok(found >= times, `expected ${times} times /${answer}/, got:\n${output}`)
    }
    if (showsErrors !== true) assert.ok(!output.includes('"error"'), output)
  })
}

async function runDocument(file: string, setting: DocumentSetting): Promise<DocumentRun> {
  const text = await readFile(path.join(projectRoot, file), 'utf8')
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-document-'))
  const environment = { ...setting.environment, PATH: await commandPath(folder, setting.programs) }
  let server: ServerProcess | null = null
  const outputs: string[] = []
  const promised: string[] = []
  try {
    await setting.prepare?.(folder)
    for (const [name, content] of shownFiles(text)) await writeDeep(path.join(folder, name), content)
    if (setting.serve !== undefined) server = await startServerProcess(setting.serve, { environment, folder })
    for (const block of blocksOf(text, setting.python ?? 'python3')) {
      promised.push(...block.promised)
      for (const piece of piecesOf(block.commands)) {
        if (piece.kind === 'serve') {
          await server?.stop()
          server = await startServerProcess(await wordsOf(piece.flags), { environment, folder })
        } else {
          outputs.push(await runScript(withPorts(piece.script, server), folder, environment))
        }
      }
    }
  } finally {
    await server?.stop()
    await rm(folder, { recursive: true, force: true })
  }
  return { outputs, promised }
}

const shownFiles = (text: string): [string, string][] =>
  [...text.matchAll(/```\w+\n(?:#|\/\/) ((?:models|backends)\/\S+|access\.yaml)[^\n]*\n([\s\S]*?)```/g)]
    .map(([, name = '', content = '']): [string, string] => [name, content])
    .filter(([name]) => !name.includes('<'))

type Block = { readonly commands: string; readonly promised: readonly string[] }

function blocksOf(text: string, python: string): Block[] {
  const blocks = [...text.matchAll(/(<!-- not run[^>]*-->\s*)?```(sh|bash|python)\n([\s\S]*?)```/g)]
  return blocks
    .filter(([, isNotRun, language, source = '']) => {
      if (isNotRun !== undefined) return false
      return language !== 'python' || source.includes('InferenceServerClient(')
    })
    .map(([, , language, source = '']) => {
      if (language === 'python') return { commands: `"${python}" - <<'PYTHON'\n${source}PYTHON`, promised: [] }
      // What a reader installs is there already.
      const lines = source
        .replaceAll(/^.*\b(?:pip|npm) install\b.*\n/gm, '')
        .replaceAll(/\\\n\s*/g, '')
        .split('\n')
      if (!source.startsWith('$ ')) return { commands: lines.join('\n'), promised: [] }
      return {
        commands: lines.flatMap((line) => (line.startsWith('$ ') ? [line.slice(2)] : [])).join('\n'),
        promised: lines.filter((line) => !line.startsWith('$ ') && line !== '' && line !== '…'),
      }
    })
}

type Piece = { readonly kind: 'serve'; readonly flags: string } | { readonly kind: 'run'; readonly script: string }

/** Ports are chosen by the system, and are read from the log. */
const fixedFlags = /--(?:(?:http|grpc|metrics)-port[ =]\d+|log-file[ =]\S+)/g

/** The lines of a block, cut where a server starts. */
function piecesOf(commands: string): Piece[] {
  const pieces: Piece[] = []
  let script: string[] = []
  const endScript = (): void => {
    if (script.some((line) => line.trim() !== '')) pieces.push({ kind: 'run', script: script.join('\n') })
    script = []
  }
  for (const line of commands.split('\n')) {
    const flags = /^(?:npx )?galatea (?:serve )?(--(?!version|help).*?)(?:&\s*)?(?:\s#.*)?$/.exec(line)?.[1]
    if (flags === undefined) {
      script.push(line)
      continue
    }
    endScript()
    pieces.push({ kind: 'serve', flags: `${flags.replaceAll(fixedFlags, '')} ${freePorts(flags)}` })
  }
  endScript()
  return pieces
}

/** Protocols with ports of their own. */
const freePorts = (flags: string): string =>
  [
    ...(flags.includes('--allow-tfserving') ? ['--tfserving-port=0'] : []),
    ...(flags.includes('--allow-torchserve')
      ? ['inference', 'management', 'metrics', 'grpc-inference', 'grpc-management'].map(
          (port) => `--torchserve-${port}-port=0`,
        )
      : []),
  ].join(' ')

/** The words of a command line as the shell splits them. */
async function wordsOf(line: string): Promise<string[]> {
  const printed = await runScript(`set -f; printf '%s\\0' ${line}`, tmpdir(), {})
  return printed.split('\0').slice(0, -1)
}

function withPorts(script: string, server: ServerProcess | null): string {
  if (server === null) return script
  const portOf = (service: string): string =>
    new RegExp(`Started ${service} at (?:http://)?[^\\s"]+:(\\d+)`).exec(server.output)?.[1] ?? 'none'
  return script
    .replaceAll('localhost:8000', `localhost:${server.port}`)
    .replaceAll('localhost:8001', `localhost:${portOf('GRPCInferenceService')}`)
    .replaceAll('localhost:8002', `localhost:${portOf('Metrics Service')}`)
    .replaceAll('localhost:8501', `localhost:${portOf('TensorFlow Serving REST service')}`)
    .replaceAll('localhost:8080', `localhost:${portOf('TorchServe inference')}`)
    .replaceAll('localhost:8081', `localhost:${portOf('TorchServe management')}`)
}

export async function runScript(
  script: string,
  folder: string,
  environment: Readonly<Record<string, string>>,
): Promise<string> {
  const child = spawn('bash', ['-ec', script], {
    cwd: folder,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  assert.equal(code, 0, `exit status ${code} of\n${script}\n${output}`)
  return output
}

/** A PATH on which `galatea` and `npx galatea` are this checkout's. */
export async function commandPath(folder: string, programs?: string): Promise<string> {
  const bin = path.join(folder, '.bin')
  const launch = `exec "${process.execPath}" "${path.join(projectRoot, 'bin/galatea.js')}" "$@"\n`
  await writeDeep(path.join(bin, 'galatea'), `#!/bin/sh\n${launch}`)
  // `npx node` is the Node that npm installed beside Galatea.
  const node = `[ "$1" = node ] && { shift; exec "${process.execPath}" "$@"; }\n`
  await writeDeep(path.join(bin, 'npx'), `#!/bin/sh\n${node}shift\n${launch}`)
  await Promise.all(['galatea', 'npx'].map((name) => chmod(path.join(bin, name), 0o755)))
  return [bin, programs, process.env['PATH']].filter((part) => part !== undefined).join(':')
}

async function writeDeep(file: string, content: string): Promise<void> {
  await mkdir(path.dirname(file), { recursive: true })
  await writeFile(file, content)
}

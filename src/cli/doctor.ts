// `galatea doctor`: looks at this machine with the eyes of a server that is about to start with these flags.

import { constants } from 'node:fs'
import { access, readFile, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { availableParallelism, totalmem } from 'node:os'
import path from 'node:path'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describedProblem, readAccessFile } from '../access/access-file.ts'
import { notStarted } from '../base/not-started.ts'
import { messageOf } from '../base/server-error.ts'
import { interpreterOf } from '../config/backend-interpreter.ts'
import { countGpus, onnxObstacle } from '../open-gpus.ts'
import { FlagError } from '../options/flag-forms.ts'
import { optionsFromFlags } from '../options/options-from-flags.ts'
import type { ServerOptions } from '../options/server-options.ts'
import { refuseBusyPorts } from '../refuse-busy-ports.ts'
import { isCloudPath, withoutSecrets } from '../repository/cloud/cloud-location.ts'
import type { CommandIo } from './command-io.ts'
import { examplesPath, packageVersion } from './package-facts.ts'
import { parseFlags } from './parse-flags.ts'
import { textTable } from './text-table.ts'

const usage = `Usage: galatea doctor [--json] [flags of galatea serve]

Looks at this machine as a server that starts with these flags would: Node, memory, Python, GPUs and their driver, ports, folders,
Redis and key sets. Says what is missing and what to do. Nothing is changed.

  --json    the findings as JSON
  --help

Exit status: 0 when a server can start, 1 when something must be done first, 2 for a mistake on the command line.
`

/** warn: the server starts, and something that it might need is missing. */
type Finding = {
  readonly about: string
  readonly state: 'ok' | 'warn' | 'fail'
  readonly found: string
  /** What to do; '' where all is well. */
  readonly advice: string
}

const ok = (about: string, found: string): Finding => ({ about, state: 'ok', found, advice: '' })
const warn = (about: string, found: string, advice: string): Finding => ({ about, state: 'warn', found, advice })
const fail = (about: string, found: string, advice: string): Finding => ({ about, state: 'fail', found, advice })

const run = promisify(execFile)
const answerTimeoutMs = 5000
const leastMemoryBytes = 256 * 1024 * 1024

type Check = (options: ServerOptions) => Finding | readonly Finding[] | Promise<Finding | readonly Finding[]>

const checks: readonly Check[] = [node, memory, python, gpus, ports, repositories, folders, redis, keySets]

export async function runDoctor(args: string[], io: CommandIo): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    io.stdout(usage)
    return 0
  }
  let options: ServerOptions
  try {
    const given = args.filter((word) => word !== '--json')
    const surroundings = { environment: process.env, version: packageVersion(), examplesPath: examplesPath() }
    // Without a repository the doctor looks at the machine alone.
    const hasRepository = given.some((word) => /^--(?:model-(?:repository|store)|examples)/.test(word))
    options = optionsFromFlags(parseFlags(hasRepository ? given : [...given, '--examples'], process.env), surroundings)
  } catch (reason) {
    if (!(reason instanceof FlagError)) throw reason
    io.stderr(`galatea doctor: ${reason.message}\n`)
    return 2
  }
  const findings = (await Promise.all(checks.map(async (check) => check(options)))).flat()
  io.stdout(args.includes('--json') ? `${JSON.stringify(findings, null, 2)}\n` : tableOf(findings))
  return findings.some(({ state }) => state === 'fail') ? 1 : 0
}

function tableOf(findings: readonly Finding[]): string {
  const rows = findings.map(({ about, state, found }) => [state.toUpperCase(), about, found])
  const advice = findings.flatMap(({ about, advice: what }) => (what === '' ? [] : [`${about}: ${what}`]))
  const todo = advice.length === 0 ? ['Nothing is missing.'] : ['What to do:', ...advice.map((line) => `  - ${line}`)]
  return `${textTable(['State', 'About', 'Found'], rows)}\n${todo.join('\n')}\n`
}

function node(): Finding {
  const [major = 0] = process.versions.node.split('.').map(Number)
  const found = `${process.version} on ${process.platform} ${process.arch}, ${availableParallelism()} cores`
  return major >= 26 ? ok('Node', found) : fail('Node', found, 'install Node 26 or newer: https://nodejs.org')
}

function memory({ process: { clientMemoryLimitBytes } }: ServerOptions): Finding {
  const limit = Math.min(process.constrainedMemory() || Infinity, totalmem())
  const free = process.availableMemory()
  const found = `${inGiB(free)} of ${inGiB(limit)} GiB are free`
  if (free < leastMemoryBytes) return fail('memory', found, 'give the container more memory, or end other programs')
  if (Number.isFinite(clientMemoryLimitBytes) && clientMemoryLimitBytes > limit / 2) {
    const advice = `--client-memory-limit is ${inGiB(clientMemoryLimitBytes)} GiB: set it below half of the memory, or requests can push models out`
    return warn('memory', found, advice)
  }
  return ok('memory', found)
}

const inGiB = (bytes: number): string => (bytes / 1024 ** 3).toFixed(1)

async function python({ engine }: ServerOptions): Promise<Finding> {
  const interpreter = interpreterOf(engine.backendConfig, 'python')
  const question =
    'import sys\ntry:\n import numpy\n v = numpy.__version__\nexcept ImportError:\n v = ""\nprint(sys.version.split()[0], v)'
  try {
    const { stdout } = await run(interpreter, ['-c', question], { timeout: answerTimeoutMs })
    const [version = '', numpy = ''] = stdout.trim().split(' ')
    if (numpy === '') return warn('Python', `${interpreter} ${version} without numpy`, `for Python models: ${interpreter} -m pip install numpy`) // prettier-ignore
    return ok('Python', `${interpreter} ${version} with numpy ${numpy}`)
  } catch (reason) {
    const advice = 'needed for Python models only: install python3 and numpy, or name one with --python PATH'
    return warn('Python', notStarted(interpreter, messageOf(reason).split('\n', 1)[0] ?? ''), advice)
  }
}

async function gpus({ engine }: ServerOptions): Promise<Finding | readonly Finding[]> {
  const count = countGpus(engine)
  const driver = await readFile('/proc/driver/nvidia/version', 'utf8').catch(() => '')
  const [, version = ''] = /Kernel Module\D*([\d.]+)/.exec(driver) ?? []
  if (count === 0 && driver === '')
    return ok('GPU', 'none, and no NVIDIA driver: models run on the CPU, and those with KIND_GPU do not load')
  if (count === 0) {
    const advice =
      'start the container with --gpus all (NVIDIA container toolkit), and look at CUDA_VISIBLE_DEVICES and --min-supported-compute-capability'
    return warn('GPU', `the driver ${version} is there, and no GPU can be used`, advice)
  }
  const found = ok('GPU', `${count} that can be used${version === '' ? '' : `, driver ${version}`}`)
  const obstacle = await onnxObstacle(engine)
  return obstacle === null
    ? found
    : [found, warn('ONNX on the GPU', 'no: ONNX models run on the CPU, and those with KIND_GPU do not load', obstacle)]
}

async function ports(options: ServerOptions): Promise<Finding> {
  try {
    await refuseBusyPorts(options)
    return ok('ports', portsText(options))
  } catch (reason) {
    return fail('ports', messageOf(reason), 'end the program that has the port, or choose another port')
  }
}

const portsText = ({ http, grpc, metrics }: ServerOptions): string =>
  [
    http === null ? '' : `HTTP ${http.address}:${http.port}`,
    grpc === null ? '' : `gRPC ${grpc.address}:${grpc.port}`,
    metrics === null ? '' : `metrics ${metrics.address}:${metrics.port}`,
  ]
    .filter((text) => text !== '')
    .join(', ')
    .concat(' are free')

async function repositories({ engine }: ServerOptions): Promise<Finding[]> {
  return Promise.all(
    engine.modelRepositories.map(async (root) => {
      const shown = withoutSecrets(root)
      if (isCloudPath(root)) return ok('repository', `${shown} lies elsewhere: galatea check ${shown} looks into it`)
      try {
        if (!(await stat(root)).isDirectory()) return fail('repository', `${shown} is no folder`, 'name the folder that holds the folders of models') // prettier-ignore
        await access(root, constants.R_OK | constants.X_OK)
        return ok('repository', `${shown} can be read`)
      } catch (reason) {
        const user = `uid ${process.getuid?.() ?? '?'}`
        return fail('repository', messageOf(reason), `make the folder, mount it, or let ${user} read it`)
      }
    }),
  )
}

/** Folders that the server writes to. Those of logs must be there; others are made, and then the folder above them counts. */
async function folders(options: ServerOptions): Promise<Finding[]> {
  const { process: server, engine } = options
  const written: [about: string, folder: string, flag: string][] = [['state', server.stateDirectory, '--state-dir']]
  for (const [about, file, flag] of [
    ['log', server.log.file, '--log-file'],
    ['access log', server.accessLogFile === '-' ? '' : server.accessLogFile, '--access-log'],
    ['audit log', server.auditLogFile, '--audit-log'],
  ] as const) {
    if (file !== '') written.push([about, path.dirname(path.resolve(file)), flag])
  }
  if (engine.modelRepositories.some((root) => isCloudPath(root)) && engine.modelCacheDirectory !== '') {
    written.push(['model cache', engine.modelCacheDirectory, '--model-cache-dir'])
  }
  return Promise.all(
    written.map(async ([about, folder, flag]) => {
      const there = about.endsWith('log') ? folder : await nearestFolder(folder)
      try {
        await access(there, constants.W_OK | constants.X_OK)
        return ok(`${about} folder`, `${folder} can be written`)
      } catch {
        const advice = `mount a volume there that uid ${process.getuid?.() ?? '?'} may write, or name another folder with ${flag}`
        const found = `${there} cannot be written`
        return about === 'state' ? warn('state folder', `${found}: rollouts do not outlive the server`, advice) : fail(`${about} folder`, found, advice) // prettier-ignore
      }
    }),
  )
}

async function nearestFolder(folder: string): Promise<string> {
  for (let at = folder; ; at = path.dirname(at)) {
    const isThere = await stat(at).then(
      () => true,
      () => false,
    )
    if (isThere || at === path.dirname(at)) return at
  }
}

async function redis({ engine, process: server }: ServerOptions): Promise<Finding[]> {
  const addresses: [about: string, host: string, port: number][] = []
  const cache = engine.responseCache
  if (cache !== null && cache.kind === 'redis') addresses.push(['Redis of --cache-config', cache.host, cache.port])
  const store = server.rolloutStoreUrl === '' ? null : URL.parse(server.rolloutStoreUrl)
  if (store !== null) addresses.push(['Redis of --rollout-store', store.hostname, Number(store.port || 6379)])
  return Promise.all(addresses.map(([about, host, port]) => answersAt(about, host, port)))
}

/** A connection is enough: whether the password is right is told when the server connects. */
function answersAt(about: string, host: string, port: number): Promise<Finding> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: answerTimeoutMs })
    const end = (finding: Finding): void => {
      socket.destroy()
      resolve(finding)
    }
    const away = (reason: string): Finding =>
      fail(about, `${host}:${port} does not answer (${reason})`, 'start it, or look at name, port and network policy')
    socket.once('connect', () => end(ok(about, `${host}:${port} answers`)))
    socket.once('timeout', () => end(away('no answer in 5 s')))
    socket.once('error', (reason) => end(away(messageOf(reason))))
  })
}

async function keySets({ process: { accessConfigFile } }: ServerOptions): Promise<Finding[]> {
  if (accessConfigFile === '') return []
  const { config, problems } = await readAccessFile(accessConfigFile)
  if (config === null || problems.length > 0) {
    const found = problems.map((problem) => describedProblem(accessConfigFile, problem)).join('; ')
    return [fail('access file', found, 'mend the file: a server does not start with it')]
  }
  const sets = config.issuers.map(async ({ issuer, jwks }): Promise<Finding> => {
    const about = `keys of ${issuer}`
    try {
      const answer = await fetch(jwks, { signal: AbortSignal.timeout(answerTimeoutMs) })
      const { keys } = (await answer.json()) as { keys?: unknown }
      if (Array.isArray(keys) && keys.length > 0) return ok(about, `${jwks} has ${keys.length} keys`)
      return fail(about, `${jwks} answered ${answer.status} without keys`, "look at 'jwks' in the access file")
    } catch (reason) {
      return fail(about, `${jwks} cannot be read (${messageOf(reason)})`, "look at 'jwks' in the access file, and at the network") // prettier-ignore
    }
  })
  const store =
    config.store === null ? [] : [answersAt('Redis of the access file', config.store.host, config.store.port)]
  return [ok('access file', `${accessConfigFile} can be read`), ...(await Promise.all([...sets, ...store]))]
}

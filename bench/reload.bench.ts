// Reloads: what 200 of them leave in memory, for each kind of model, and for how long nobody is answered while a Python model that
// starts in 300 ms is loaded again under load. A process that starts takes a core from the server, whoever starts it. So the same
// start of Python beside the server, outside it, is measured in turn: what a reload adds to that is the server's own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { testPython } from '../test/e2e/python-checks.ts'
import { startServerProcess, type ServerProcess } from '../test/e2e/server-process.ts'
import { alternate, medianOf, type Bench, type BenchSettings, type Figure } from './bench.ts'
import { createSoakRepository, reloadedModels } from './soak-repository.ts'

/** GALATEA_RELOADS: for a longer look, or a short one to see that it runs. */
const reloads = Number(process.env['GALATEA_RELOADS'] ?? 200)
/** The first ones pay for code that is compiled. */
const firstReloads = 10
const clients = 4
const pauseMs = 5

const flagsFor = (repository: string): string[] => [
  `--model-repository=${repository}`,
  '--model-control-mode=explicit',
  '--load-model=*',
  `--backend-config=python,interpreter=${testPython()}`,
]

const load = async (server: ServerProcess, model: string): Promise<void> => {
  const response = await fetch(`${server.url}/v2/repository/models/${model}/load`, { method: 'POST' })
  if (!response.ok) throw new Error(await response.text())
}

async function serverMibOf(pid: number): Promise<number> {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(await readFile(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024
}

/** The least within this time: the server gives back what it does not need once it has nothing to do. */
const restSeconds = 40

async function restingMib({ pid }: ServerProcess): Promise<number> {
  let least = Infinity
  for (let second = 0; second < restSeconds; second++) {
    await pause(1000)
    least = Math.min(least, await serverMibOf(pid))
  }
  return least
}

async function growthOf(kind: string, model: string, { say }: BenchSettings): Promise<Figure> {
  await using repository = await createSoakRepository()
  await using server = await startServerProcess(flagsFor(repository.path))
  const reload = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time++) {
      await repository.change(model)
      await load(server, model)
    }
  }
  await reload(firstReloads)
  const before = await restingMib(server)
  await reload(reloads)
  const after = await restingMib(server)
  const detail = `${before.toFixed(1)} MiB at rest after ${firstReloads} reloads, ${after.toFixed(1)} MiB after ${reloads} more`
  say(`${kind}: ${detail}`)
  const target = { kind: 'at most', value: 8 } as const
  return { what: `growth over ${reloads} reloads, ${kind}`, value: after - before, unit: 'MiB', target, detail }
}

const startMs = 300
const model = `import time
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        time.sleep(${startMs / 1000})

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)]) for values in inputs]
`
const config = `backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: 4 }
output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
`

/** Clients that ask, wait for the answer, pause and ask again; and when each answer came. */
class Clients {
  readonly #agent = new Agent({ keepAlive: true })
  readonly #server: ServerProcess
  readonly #lanes: Promise<void>[]
  #isOver = false
  answeredMs: number[] = []
  failed = 0

  constructor(server: ServerProcess) {
    this.#server = server
    this.#lanes = Array.from({ length: clients }, () => this.#lane())
  }

  /** The longest time without an answer while `act` ran, and shortly after. */
  async longestGapMs(act: () => Promise<void>): Promise<number> {
    this.answeredMs = [performance.now()]
    await act()
    await pause(500)
    return this.answeredMs.reduce((longest, ms, index) => Math.max(longest, ms - (this.answeredMs[index - 1] ?? ms)), 0)
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#lanes)
    this.#agent.destroy()
  }

  async #lane(): Promise<void> {
    while (!this.#isOver) {
      if (!(await this.#ask())) this.failed++
      this.answeredMs.push(performance.now())
      await pause(pauseMs)
    }
  }

  #ask(): Promise<boolean> {
    const body = JSON.stringify({ inputs: [{ name: 'IN', shape: [4], datatype: 'FP32', data: [1, 2, 3, 4] }] })
    const { port } = this.#server
    return new Promise((resolve) => {
      const options = { agent: this.#agent, host: '127.0.0.1', port, method: 'POST', path: '/v2/models/m/infer' }
      const asked = request(options, (response) => {
        response.resume()
        response.once('end', () => resolve(response.statusCode === 200))
      })
      asked.once('error', () => resolve(false))
      asked.end(body)
    })
  }
}

async function gaps({ rounds, say }: BenchSettings): Promise<Figure[]> {
  const root = await mkdtemp(path.join(tmpdir(), 'galatea-gap-'))
  await mkdir(path.join(root, 'm/1'), { recursive: true })
  const file = path.join(root, 'm/1/model.py')
  await writeFile(file, model)
  await writeFile(path.join(root, 'm/config.pbtxt'), config)
  try {
    await using server = await startServerProcess(flagsFor(root))
    const asking = new Clients(server)
    await pause(2000)
    const { reload, beside } = await alternate(2 * rounds, {
      reload: () =>
        asking.longestGapMs(async () => {
          await appendFile(file, '# changed\n')
          await load(server, 'm')
        }),
      beside: () =>
        asking.longestGapMs(async () => {
          const script = `import time, numpy; time.sleep(${startMs / 1000})`
          await once(spawn(testPython(), ['-c', script], { stdio: 'ignore' }), 'exit')
        }),
    })
    await asking.stop()
    const list = (values: readonly number[]): string => values.map((ms) => ms.toFixed(0)).join(', ')
    const detail = `reloads ${list(reload)} ms; the same start of Python beside the server ${list(beside)} ms`
    say(detail)
    const target = { kind: 'at most', value: 100 } as const
    return [
      {
        what: 'longest time without an answer in a reload, median',
        value: medianOf(reload),
        unit: 'ms',
        target,
        detail,
      },
      {
        what: 'the same without a reload, while a Python starts beside the server',
        value: medianOf(beside),
        unit: 'ms',
        target: null,
        detail: '',
      },
      {
        what: 'requests that failed in reloads',
        value: asking.failed,
        unit: '',
        target: { kind: 'at most', value: 0 },
        detail: '',
      },
    ]
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

export const bench: Bench = {
  name: 'reload',
  summary: `how long nobody is answered in a reload under load, and what ${reloads} reloads leave in memory`,
  async run(settings) {
    const figures = await gaps(settings)
    for (const [kind, name] of Object.entries(reloadedModels)) figures.push(await growthOf(kind, name, settings))
    return figures
  },
}

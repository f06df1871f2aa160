// A real Prometheus scrapes a real server: its page is valid, and every query that we ship finds data on it.

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { requireTool } from '../tool.ts'
import { startObservedServer, type ObservedServer } from './observed-server.ts'
import { observabilityFolder, PrometheusProcess } from './prometheus-process.ts'
import { until } from '../until.ts'

const run = promisify(execFile)

type Rule = { readonly record?: string; readonly alert?: string; readonly expr: string }
type Panel = { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }

/** What a program says about its standard input, and with which code it ends. */
async function feed(program: string, args: readonly string[], input: string): Promise<{ code: number; said: string }> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number]
  return { code, said }
}

const readRules = async (): Promise<Rule[]> => {
  const text = await readFile(path.join(observabilityFolder, 'rules.yml'), 'utf8')
  return (parse(text) as { groups: { rules: Rule[] }[] }).groups.flatMap(({ rules }) => rules)
}

/** By title; what a reader chooses in Grafana is chosen here: everything, and a window that a short run fills. */
const readPanels = async (): Promise<(readonly [title: string, expression: string])[]> => {
  const text = await readFile(path.join(observabilityFolder, 'grafana/dashboards/galatea.json'), 'utf8')
  const { panels } = JSON.parse(text) as { panels: Panel[] }
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => [
      title,
      expr.replaceAll(/\$(instance|model)\b/g, '.*').replaceAll('$__rate_interval', '1m'),
    ]),
  )
}

/** An alert that does not fire has no data: asked with `bool` it says 0 instead. */
const withBool = (expression: string): string => {
  const at = Math.max(expression.lastIndexOf(' > '), expression.lastIndexOf(' == '))
  const after = expression.indexOf(' ', at + 1)
  return `${expression.slice(0, after)} bool${expression.slice(after)}`
}

describe('rules', () => {
  test('are valid, and say what their own tests say', async () => {
    const promtool = await requireTool('promtool')
    await run(promtool, ['check', 'rules', 'rules.yml'], { cwd: observabilityFolder })
    await run(promtool, ['check', 'config', '--syntax-only', 'prometheus.yml'], { cwd: observabilityFolder })
    await run(promtool, ['test', 'rules', 'rules.test.yml'], { cwd: observabilityFolder })
  })

  test('are each tested: no alert is without a case in which it fires', async () => {
    const tests = await readFile(path.join(observabilityFolder, 'rules.test.yml'), 'utf8')
    type Case = { alert_rule_test?: { alertname: string; exp_alerts: unknown[] }[] }
    const fired = (parse(tests) as { tests: Case[] }).tests
      .flatMap((one) => one.alert_rule_test ?? [])
      .filter(({ exp_alerts }) => exp_alerts.length > 0)
      .map(({ alertname }) => alertname)
    const alerts = (await readRules()).flatMap(({ alert }) => alert ?? [])
    assert.deepEqual(
      alerts.filter((alert) => !fired.includes(alert)),
      [],
    )
  })
})

describe('a server that Prometheus watches', () => {
  let observed: ObservedServer
  let prometheus: PrometheusProcess
  const loading = new AbortController()
  let load: Promise<void>

  before(async () => {
    observed = await startObservedServer()
    await observed.release()
    prometheus = await PrometheusProcess.start(observed.metricsAddress)
    load = (async () => {
      for (let i = 0; !loading.signal.aborted; i++) {
        await Promise.all([
          observed.send(i % 9 === 0 ? -1 : i % 5, 1 + (i % 3)),
          observed.send(1),
          fetch(`${observed.server.url}/v2/models/nobody/infer`, { method: 'POST', body: '{}' }),
        ])
      }
    })()
  })
  after(async () => {
    loading.abort()
    await load
    await prometheus[Symbol.asyncDispose]()
    await observed[Symbol.asyncDispose]()
  })

  const page = async (accept: string): Promise<string> => {
    const answer = await fetch(`http://${observed.metricsAddress}/metrics`, { headers: { accept } })
    assert.ok(answer.headers.get('content-type')?.startsWith(accept))
    return answer.text()
  }

  /** Samples of an expression, as soon as some are numbers: Prometheus has to have looked a few times. */
  const dataOf = async (expression: string): Promise<number[]> => {
    let values: number[] = []
    const isThere = async (): Promise<boolean> =>
      (values = (await prometheus.query(expression)).map(({ value }) => value)).some(Number.isFinite)
    await until(isThere, expression, { everyMs: 100, seen: () => values })
    return values
  }

  test('has a page that promtool reads, with no fault in the names that are our own', async () => {
    const promtool = await requireTool('promtool')
    const { code, said } = await feed(promtool, ['check', 'metrics'], await page('text/plain'))
    // 3: it can be read, and there is something to say about style.
    assert.ok(code === 0 || code === 3, said)
    const ours = said.split('\n').filter((line) => /^(galatea|process)_/.test(line))
    assert.deepEqual(ours, [])
  })

  test('has an OpenMetrics page that the reference parser reads', async () => {
    const python = await requireTool('openmetrics-parser')
    const script =
      'import sys\n' +
      'from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n' +
      'print(*sorted({s.name for f in parse(sys.stdin.read()) for s in f.samples}), sep="\\n")'
    const { code, said } = await feed(python, ['-c', script], await page('application/openmetrics-text'))
    assert.equal(code, 0, said)
    const names = new Set(said.trim().split('\n'))
    const plain = [...(await page('text/plain')).matchAll(/^([a-z_0-9]+)[{ ]/gm)].map((match) => match[1] ?? '')
    assert.deepEqual(names, new Set(plain), 'and the series have the names they have in the other format')
  })

  test('is scraped without a complaint', async () => {
    await dataOf('up == 1')
    type Target = { health: string; lastError: string }
    const { activeTargets } = (await prometheus.get('targets')) as { activeTargets: Target[] }
    assert.deepEqual(
      activeTargets.map(({ health, lastError }) => [health, lastError]),
      [['up', '']],
    )
  })

  test('gives data to every panel of the dashboard', async (t) => {
    t.diagnostic('GPU panels show what nvidia-smi said on another machine: it is recorded in observed-server.ts')
    t.diagnostic('panels of language models are looked at with a language model, in llamacpp.test.ts')
    for (const [title, expression] of await readPanels()) {
      if (expression.includes('galatea_llm_')) continue
      assert.ok((await dataOf(expression)).some(Number.isFinite), `${title}: ${expression}`)
    }
  })

  test('gives data to every rule', async () => {
    for (const { record, alert, expr } of await readRules()) {
      const expression = record ?? withBool(expr)
      assert.ok((await dataOf(expression)).some(Number.isFinite), `${record ?? alert}: ${expression}`)
    }
    type Group = { rules: { name: string; health: string; lastError?: string }[] }
    const { groups } = (await prometheus.get('rules')) as { groups: Group[] }
    const sick = groups.flatMap(({ rules }) => rules).filter(({ health }) => health !== 'ok')
    assert.deepEqual(sick, [])
  })

  test('tells Prometheus what it tells its clients', async () => {
    loading.abort()
    await load
    const count = async (): Promise<number> => {
      const text = await page('text/plain')
      return Number(/nv_inference_request_success\{model="batched".*\} (\d+)/.exec(text)?.[1])
    }
    const wanted = await count()
    assert.ok(wanted > 0)
    const seen = await dataOf(`nv_inference_request_success{model="batched"} == ${wanted}`)
    assert.deepEqual(seen, [wanted])
    const rows = await prometheus.query(
      'rows_seen_total{model_name="batched"} == on () galatea_batch_size_sum{model="batched"}',
    )
    assert.equal(rows.length, 1, 'and what a model counts itself is the same')
  })
})

// Alerts that act: a real Prometheus sees errors of a new version, a real Alertmanager says so, and the server rolls it back.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { freePort } from '../free-port.ts'
import { requireTool } from '../tool.ts'
import { until } from '../until.ts'
import { PrometheusProcess } from './prometheus-process.ts'
import { call, reached, RolloutRepository, type ShownRollout } from './rollout-repository.ts'
import { startServerProcess } from './server-process.ts'

const request = { inputs: [{ name: 'X', shape: [1], datatype: 'INT32', data: [1] }] }

const actions = `
rules:
  - { alert: GalateaErrors, labels: { model: "*" }, do: [rollback, notify], cooldown: 10m }
  - { alert: Anything, model: m, do: [pause_jobs, { scale: 1 }], cooldown: 1s }
  - { alert: Trial, do: [unload_idle], dry_run: true }
  - { when: 'nv_cpu_memory_used_bytes / nv_cpu_memory_total_bytes > 0', do: [unload_idle] }
notify: [{ url: 'NOTIFY' }]
`

const alertmanagerConfig = (url: string): string => `
route: { receiver: galatea, group_wait: 0s, group_interval: 1s, group_by: [alertname, model] }
receivers: [{ name: galatea, webhook_configs: [{ url: '${url}/v2/alerts' }] }]
`

const rules = `
groups:
  - name: test
    rules:
      - { alert: GalateaErrors, expr: 'nv_inference_request_failure{version="2", reason="BACKEND"} > 2' }
`

async function startAlertmanager(folder: string, url: string): Promise<{ address: string; stop: () => Promise<void> }> {
  const program = await requireTool('prometheus-alertmanager')
  await writeFile(path.join(folder, 'alertmanager.yml'), alertmanagerConfig(url))
  const address = `127.0.0.1:${await freePort()}`
  const flags = ['--config.file=alertmanager.yml', '--storage.path=alerts', `--web.listen-address=${address}`]
  const child = spawn(program, [...flags, '--cluster.listen-address='], { cwd: folder, stdio: 'ignore' })
  process.once('exit', () => child.kill('SIGKILL'))
  await until(() => fetch(`http://${address}/-/ready`).then(({ ok }) => ok, () => false), 'Alertmanager') // prettier-ignore
  const stop = async (): Promise<void> => {
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  return { address, stop }
}

test('Prometheus and Alertmanager roll a version back that fails; every act is on record', async (context) => {
  const repository = await RolloutRepository.make(
    'backend: "typescript"\nversion_policy { specific { versions: 1 } }\n',
  )
  const folder = await mkdtemp(path.join(tmpdir(), 'galatea-alerts-'))
  context.after(() => Promise.all([repository.remove(), rm(folder, { recursive: true, force: true })]))
  await repository.addVersion(1, { number: 1 })
  await repository.addVersion(2, { number: 2, body: 'throw new Error("broken")' })
  const audit = path.join(folder, 'audit.jsonl')
  await writeFile(path.join(folder, 'actions.yaml'), actions.replace('NOTIFY', 'http://127.0.0.1:9/nobody'))
  const server = await startServerProcess([
    `--model-repository=${repository.root}`,
    `--state-dir=${path.join(folder, 'state')}`,
    `--audit-log=${audit}`,
    `--actions=${path.join(folder, 'actions.yaml')}`,
    '--allow-jobs=true',
  ])
  context.after(() => server.stop())
  const manager = await startAlertmanager(folder, server.url)
  context.after(() => manager.stop())
  const prometheus = await PrometheusProcess.start(server.metricsAddress, { rules, alertmanager: manager.address })
  context.after(() => prometheus[Symbol.asyncDispose]())
  const steps = [{ weight: 50, for: '1h' }]
  const made = await call<ShownRollout>(server, '/v2/rollouts', { model: 'm', candidate: 2, steps })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  await reached(server, 'RUNNING')
  // Requests that name a version are no matter of the rollout's own judge.
  for (let i = 0; i < 5; i++) assert.ok((await call(server, '/v2/models/m/versions/2/infer', request)).status >= 400)
  const back = await reached(server, 'ROLLED_BACK')
  assert.match(JSON.stringify(back.history), /alert GalateaErrors/)
  assert.equal((await call(server, '/v2/models/m/infer', request)).status, 200)
  // The rule cools down; a dry run does nothing; what cannot be done says why.
  const alert = (alertname: string, status = 'firing') => ({ version: '4', alerts: [{ status, labels: { alertname, model: 'm' } }] }) // prettier-ignore
  type Acts = { acts: { action: string; outcome: string; why: string }[] }
  const send = async (...given: Parameters<typeof alert>): Promise<string[]> =>
    (await call<Acts>(server, '/v2/alerts', alert(...given))).body.acts.map(({ action, outcome }) => `${action} ${outcome}`) // prettier-ignore
  assert.deepEqual(await send('GalateaErrors'), ['rollback cooling', 'notify cooling'])
  assert.deepEqual(await send('Trial'), ['unload_idle dry_run'])
  assert.deepEqual(await send('Trial', 'resolved'), [])
  assert.deepEqual(await send('Unknown'), [])
  assert.deepEqual(await send('Anything'), ['pause_jobs nothing', 'scale failed'])
  assert.equal((await call(server, '/v2/alerts', { alerts: 'no' })).status, 400)
  await until(() => server.output.includes('nv_cpu_memory_total_bytes > 0, it is'), 'a condition on the own figures')
  const page = await (await fetch(`http://${server.metricsAddress}/metrics`)).text()
  assert.match(page, /galatea_alert_actions_total\{action="rollback",outcome="done"\} 1/)
  const record = await readFile(audit, 'utf8')
  for (const what of ['alert.rollback', 'alert.notify', 'alert.scale', 'alert.unload_idle']) assert.ok(record.includes(`"action":"${what}"`), record) // prettier-ignore
})

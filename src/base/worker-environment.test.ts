import assert from 'node:assert/strict'
import { test } from 'node:test'
import { telemetryOff } from './telemetry-off.ts'
import { workerEnvironment } from './worker-environment.ts'

const server = {
  PATH: '/bin',
  LC_ALL: 'C',
  CUDA_VISIBLE_DEVICES: '0',
  PYTHONPATH: '/p',
  OMP_NUM_THREADS: '2',
  AWS_SECRET_ACCESS_KEY: 'a',
  GALATEA_HTTP_RESTRICTED_API: 'inference:k=v',
  DATABASE_URL: 'b',
  HF_TOKEN: 'c',
  PYTHON_TOKEN: 'd',
  TF_API_KEY: 'e',
}

test('a worker gets what it needs to run and to use the machine, and no secrets', () => {
  assert.deepEqual(Object.keys(workerEnvironment([], server)), [
    'PATH',
    'LC_ALL',
    'CUDA_VISIBLE_DEVICES',
    'PYTHONPATH',
    'OMP_NUM_THREADS',
    'ORT_DISABLE_TELEMETRY',
  ])
})

test('--python-env passes more: a name, a name with a value, or everything', () => {
  const some = workerEnvironment(['HF_TOKEN', 'MODE=a=b', 'PATH=/other', 'ABSENT'], server)
  assert.deepEqual([some['HF_TOKEN'], some['MODE'], some['PATH'], some['DATABASE_URL']], ['c', 'a=b', '/other', undefined]) // prettier-ignore
  assert.ok(!('ABSENT' in some))
  assert.deepEqual(workerEnvironment(['*', 'X=1'], server), { ...server, ...telemetryOff, X: '1' })
  assert.deepEqual(workerEnvironment(null, server), { ...server, ...telemetryOff })
})

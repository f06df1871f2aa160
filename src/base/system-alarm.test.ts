import assert from 'node:assert/strict'
import test from 'node:test'
import { until } from '../../test/until.ts'
import { openSystemAlarm } from './system-alarm.ts'

test(
  'an alarm for more seconds than 32 bits hold does not ring now',
  { skip: process.platform !== 'linux' },
  async () => {
    const rung: string[] = []
    const far = openSystemAlarm(() => void rung.push('far'))
    const near = openSystemAlarm(() => void rung.push('near'))
    near?.keepAlive(true)
    far?.set(2 ** 32 * 1e9)
    near?.set(20e6)
    await until(() => rung.length > 0, 'an alarm')
    near?.keepAlive(false)
    assert.deepEqual(rung, ['near'])
  },
)

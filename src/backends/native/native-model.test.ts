import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configMessage, emptyModelConfig } from '../../config/model-config.ts'
import { instanceFacts } from './native-model.ts'

test('a backend is told the profiles, devices and policy of the group of its instance, and of no other', () => {
  const config = emptyModelConfig()
  config.instanceGroup = [
    configMessage('ModelInstanceGroup', { name: 'm', profile: ['small'], hostPolicy: 'near' }),
    configMessage('ModelInstanceGroup', {
      name: 'm_1',
      passive: true,
      profile: ['large', '2'],
      secondaryDevices: [configMessage('ModelInstanceGroup.SecondaryDevice', { kind: 'KIND_NVDLA', deviceId: 3 })],
    }),
  ]
  assert.deepEqual(instanceFacts({ name: 'm_0', kind: 'KIND_CPU', deviceId: 0 }, config), {
    name: 'm_0',
    kind: 1,
    deviceId: 0,
    isPassive: false,
    hostPolicy: '{"near":{}}',
    profiles: ['small'],
    secondaryDevices: [],
  })
  assert.deepEqual(instanceFacts({ name: 'm_1_0', kind: 'KIND_GPU', deviceId: 2 }, config), {
    name: 'm_1_0',
    kind: 2,
    deviceId: 2,
    isPassive: true,
    hostPolicy: '{"gpu_2":{}}',
    profiles: ['large', '2'],
    secondaryDevices: [{ kind: 'KIND_NVDLA', id: 3 }],
  })
})

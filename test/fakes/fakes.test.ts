// What stands in for backends and instances in tests keeps the contract of the real ones. The instances of
// test/scenario/*-broken.ts do not, on purpose: each has one mistake that the simulations must find.

import { copyModelConfig, filesOf, testBackendContract } from '../../src/backends/backend.contract.ts'
import type { Backend, Instance } from '../../src/model/backend.ts'
import { SimulatedInstance } from '../scenario/simulated-instance.ts'
import { FakeBackend } from './fake-backend.ts'
import { answerWithCopy, HeldInstance } from './held-instance.ts'

const subject = (backend: Backend) => (): ReturnType<Parameters<typeof testBackendContract>[1]> =>
  Promise.resolve({ backend, config: copyModelConfig(), files: filesOf('/nowhere') })

/** For an Instance that a test makes by itself. */
const backendOf = (createInstance: (name: string) => Instance): Backend => ({
  name: 'fake',
  complete: (draft) => Promise.resolve(draft),
  load: () =>
    Promise.resolve({
      createInstance: ({ name }) => Promise.resolve(createInstance(name)),
      close: () => Promise.resolve(),
    }),
  close: () => Promise.resolve(),
})

const inline = new FakeBackend('inline')
inline.isHolding = false
testBackendContract('FakeBackend that answers at once', subject(inline))

const late = new FakeBackend('late')
late.isHolding = false
late.answer = (request) => setImmediate(() => answerWithCopy(request))
testBackendContract('FakeBackend that answers later', subject(late))

testBackendContract(
  'HeldInstance',
  subject(
    backendOf((name) => {
      const instance = new HeldInstance(name)
      const execute = instance.execute.bind(instance)
      instance.execute = (batch) => {
        execute(batch)
        setImmediate(() => instance.finish())
      }
      return instance
    }),
  ),
)

testBackendContract(
  'SimulatedInstance',
  subject(backendOf(() => new SimulatedInstance((instance) => setImmediate(() => instance.end(answerWithCopy))))),
)

// A thread that makes load: takes orders, hands over windows.

import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '../../base/server-error.ts'
import { LoadEngine } from './load-engine.ts'
import type { LoadOrder, LoadReport, LoadSetup } from './load-order.ts'

const report = (message: LoadReport, transfer: ArrayBuffer[] = []): void => parentPort?.postMessage(message, transfer)
const engine = new LoadEngine(workerData as LoadSetup, () => report({ kind: 'spent' }))

async function obey(order: LoadOrder): Promise<void> {
  switch (order.kind) {
    case 'begin':
      await engine.begin(order.level, order.epochMs)
      return report({ kind: 'begun' })
    case 'cut': {
      const record = engine.cut()
      const { latenciesUs, histogram } = record
      return report({ kind: 'window', record }, [latenciesUs.buffer as ArrayBuffer, histogram.buffer as ArrayBuffer])
    }
    case 'end':
      await engine.end()
      return report({ kind: 'ended' })
  }
}

parentPort?.on('message', (order: LoadOrder) => {
  obey(order).catch((reason: unknown) => report({ kind: 'failed', reason: messageOf(reason) }))
})

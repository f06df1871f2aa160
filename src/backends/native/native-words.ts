// What a user reads when the host of a native backend does not start a model.

import { errorCodes, ServerError } from '../../base/server-error.ts'
import type { WorkerWords } from '../worker-process/worker-launch.ts'

export const nativeWords: WorkerWords = {
  noun: 'host process',
  missing: (executable) => `the host of native backends was not found: '${executable}' cannot be started`,
  failure: ({ message, code }) => new ServerError(errorCodes[code ?? 1] ?? 'INTERNAL', message),
}

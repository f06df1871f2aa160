// What a user reads when the Python process of a model does not start.

import { notStarted } from '../../base/not-started.ts'
import { ServerError } from '../../base/server-error.ts'
import type { StartFailure, WorkerWords } from '../worker-process/worker-launch.ts'

export const pythonWords: WorkerWords = {
  noun: 'Python process',
  missing: (executable) =>
    `Python was not found: ${notStarted(executable, 'there is no such program')}. Install Python 3.9 or newer, or name an interpreter ` +
    'with --python /path/to/python3',
  failure: failureOf,
}

function failureOf(failure: StartFailure): ServerError {
  if (failure.missing === undefined) return new ServerError('INTERNAL', failure.message)
  return new ServerError(
    'INTERNAL',
    `Python at '${failure.executable}' has no ${failure.missing} (${failure.message}). ` +
      `Install it with: ${failure.executable} -m pip install ${failure.missing} (or name a Python that has it, such as ` +
      'the bin/python of a virtual environment, with --python /path/to/python)',
  )
}

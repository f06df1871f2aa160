import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { realPathInside } from '../base/safe-path.ts'
import { ServerError } from '../base/server-error.ts'
import type { ModelConfig } from '../config/model-config.ts'

/** The content of each `initial_state.data_file`, by the state's input name. The files lie in `<model>/initial_state/`. */
export async function readInitialStates(config: ModelConfig, modelDirectory: string): Promise<Map<string, Uint8Array>> {
  const states = new Map<string, Uint8Array>()
  for (const { inputName, initialState } of config.sequenceBatching?.state ?? []) {
    const dataFile = initialState[0]?.dataFile ?? null
    if (dataFile === null) continue
    const path = join('initial_state', dataFile)
    const real = await realPathInside(modelDirectory, path)
    if (real === null) {
      const what = `failed to open text file for read ${join(modelDirectory, path)}: No such file or directory`
      throw new ServerError('INTERNAL', what)
    }
    states.set(inputName, await readFile(real))
  }
  return states
}

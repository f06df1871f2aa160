// Everything in a configuration that names a place, as one table. A configuration that came over the network may name nothing
// outside the model's folder: `refuseOutsidePaths` reads this table, so a path that has a row here is checked.

import type { FieldSchema, MessageSchema } from '../protobuf/message-schema.ts'
import { acceleratorPathBase, allAccelerators } from './accelerator-keys.ts'
import { modelConfigSchema } from './model-config-schema.ts'
import type { ModelConfig } from './model-config.ts'
import { isOperatorsParameter, isPathParameter } from './model-parameters.ts'

/**
 * Where a path begins: in each version's folder, in the model's folder or in a folder of that name inside it, or where the
 * server was started. `backend`: it is looked for beside a backend's own files, so it must be a plain name. `operator`: it is
 * no path, and only the operator may name it.
 */
type PathBase = 'version' | 'model' | 'warmup' | 'initial_state' | 'working directory' | 'backend' | 'operator'

type NamedPath = { readonly field: string; readonly value: string; readonly base: PathBase }

/** By the name of the message and of the field in model_config.proto. Other texts are names and are not looked for. */
export const pathFields: Readonly<Record<string, PathBase>> = {
  'ModelConfig.backend': 'backend',
  'ModelConfig.runtime': 'backend',
  'ModelConfig.default_model_filename': 'version',
  'ModelConfig.cc_model_filenames': 'version',
  'ModelOutput.label_filename': 'model',
  'ModelOperations.op_library_filename': 'model',
  'ModelWarmup.Input.input_data_file': 'warmup',
  'ModelSequenceBatching.InitialState.data_file': 'initial_state',
}

/** The paths that a configuration names, empty ones left out. */
export function* namedPaths(config: ModelConfig): Generator<NamedPath> {
  for (const path of pathsIn(modelConfigSchema(), config)) if (path.value !== '') yield path
  for (const [key, { stringValue }] of config.parameters) {
    const base = isPathParameter(key) ? 'working directory' : isOperatorsParameter(key) ? 'operator' : null
    if (base !== null && stringValue !== '') yield { field: `parameters["${key}"]`, value: stringValue, base }
  }
  for (const { name, parameters } of allAccelerators(config)) {
    for (const [key, value] of parameters) {
      const base = acceleratorPathBase(key)
      if (base !== null && value !== '') yield { field: `parameter '${key}' of accelerator '${name}'`, value, base }
    }
  }
}

function* pathsIn({ name, fields }: MessageSchema, message: object): Generator<NamedPath> {
  for (const field of fields) {
    const base = pathFields[`${name}.${field.wireName}`]
    for (const value of valuesOf(field, (message as Readonly<Record<string, unknown>>)[field.name])) {
      if (field.message !== null) yield* pathsIn(field.message, value as object)
      else if (base !== undefined) yield { field: field.wireName, value: value as string, base }
    }
  }
}

function valuesOf({ kind }: FieldSchema, value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return []
  if (kind === 'map') return [...(value as ReadonlyMap<unknown, unknown>).values()]
  return kind === 'repeated' ? (value as readonly unknown[]) : [value]
}

// What TensorFlow Serving's clients ask about models: their versions and labels, their states, their signatures; and the change
// of the set of models that is served.

import type { Log } from '../../base/log.ts'
import { ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import type { ModelSignature } from '../../config/model-signature.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ChangeOrigin } from '../../model/change-origin.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { tensorflowEnumName, defaultSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import type { ServingEntry } from '../../protocol/tfserving/serving-config.ts'
import type { DataType } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'

/** The part of the mapped folders that this front end needs. */
type FolderMap = {
  readonly models: ReadonlyMap<string, unknown>
  map(name: string, model: Pick<ServingEntry, 'folder' | 'configText' | 'versionPolicyText'>): void
  unmap(name: string): Promise<void>
}

type ServingModelParts = {
  readonly engine: Engine
  readonly log: Log
  /** Null: the set of models cannot be changed. */
  readonly folders: FolderMap | null
  /** The models that the server began with. */
  readonly entries: readonly ServingEntry[]
  /** `--allow-tfserving-reload` */
  readonly allowsReload: boolean
  /** The configuration of every model whose folder has none; left out: nothing. */
  readonly sharedConfigText?: string
}

type VersionStatus = { readonly version: string; readonly state: number; readonly error: string }

const states = { START: 10, LOADING: 20, AVAILABLE: 30, UNLOADING: 40, END: 50 } as const
const stateNames = new Map<number, string>(Object.entries(states).map(([name, number]) => [number, name]))
const stateOf = {
  READY: states.AVAILABLE,
  LOADING: states.LOADING,
  UNLOADING: states.UNLOADING,
  UNAVAILABLE: states.END,
  '': states.START,
} as const

const unknownCode = 2
const predictMethod = 'tensorflow/serving/predict'

const invalid = (text: string): ServerError => ServerError.withoutStack('INVALID_ARG', text)

export class ServingModels {
  readonly #parts: ServingModelParts
  readonly #log: Log
  readonly #labels = new Map<string, ReadonlyMap<string, string>>()
  /** The models of the configuration: a new one replaces them. */
  readonly #entries = new Map<string, ServingEntry>()
  readonly #changes = new Turnstile(1)

  constructor(parts: ServingModelParts) {
    this.#parts = parts
    this.#log = parts.log.from('serving-models.ts')
    for (const entry of parts.entries) this.#note(entry)
  }

  #note(entry: ServingEntry): void {
    this.#entries.set(entry.name, entry)
    this.#labels.set(entry.name, entry.labels)
  }

  get sharedConfigText(): string {
    return this.#parts.sharedConfigText ?? ''
  }

  /** The version that a label stands for. Throws INVALID_ARG. */
  versionOf(name: string, label: string): string {
    const version = this.#labels.get(name)?.get(label)
    if (version === undefined) throw invalid(`Unrecognized servable version label: ${label.slice(0, 200)}`)
    return version
  }

  /** Throws NOT_FOUND with TensorFlow Serving's texts. */
  status(name: string, version: string): VersionStatus[] {
    if (name === '') throw invalid('Missing model name in request.')
    const entries = this.#parts.engine.index().filter((entry) => entry.name === name && entry.version !== '')
    const found = entries.filter((entry) => version === '' || entry.version === version)
    if (found.length === 0) {
      const what = version === '' ? `any versions of model ${name}` : `version ${version} of model ${name}`
      throw ServerError.withoutStack('NOT_FOUND', `Could not find ${what}`)
    }
    return found.map(({ version: one, state, reason }) => ({
      version: one,
      state: stateOf[state],
      error: state === 'UNAVAILABLE' && reason !== 'unloaded' ? reason : '',
    }))
  }

  statusMessage(name: string, version: string): MessageValue {
    const rows = this.status(name, version)
    return {
      modelVersionStatus: rows.map(({ version: one, state, error }) => ({
        version: BigInt(one),
        state: stateNames.get(state),
        status: { errorCode: error === '' ? 0 : unknownCode, errorMessage: error },
      })),
    }
  }

  statusJson(name: string, version: string): Buffer {
    const rows = this.status(name, version).map(({ version: one, state, error }) => ({
      version: one,
      state: stateNames.get(state),
      status: { error_code: error === '' ? 'OK' : 'UNKNOWN', error_message: error },
    }))
    return Buffer.from(JSON.stringify({ model_version_status: rows }, null, 1))
  }

  /** Throws NOT_FOUND. */
  metadataMessage(name: string, version: string): { readonly spec: MessageValue; readonly signatures: MessageValue } {
    const found = this.find(name, version)
    const spec = { name, version: { value: BigInt(found.version) } }
    const tensors = (sides: TensorSide[]): Map<string, MessageValue> =>
      new Map(
        sides.map((side) => [
          side.name,
          {
            name: `${side.name}:0`,
            dtype: tensorflowEnumName(side.dataType),
            tensorShape: { dim: side.shape.map((size) => ({ size: BigInt(size) })) },
          },
        ]),
      )
    const { inputs, outputs } = sidesOf(found.signature)
    const signature = { inputs: tensors(inputs), outputs: tensors(outputs), methodName: predictMethod }
    return { spec, signatures: { signatureDef: new Map([[defaultSignature, signature]]) } }
  }

  metadataJson(name: string, version: string): Buffer {
    const found = this.find(name, version)
    const tensors = (sides: TensorSide[]): object =>
      Object.fromEntries(
        sides.map((side) => [
          side.name,
          {
            dtype: tensorflowEnumName(side.dataType),
            tensor_shape: { dim: side.shape.map((size) => ({ size: String(size), name: '' })), unknown_rank: false },
            name: `${side.name}:0`,
          },
        ]),
      )
    const { inputs, outputs } = sidesOf(found.signature)
    const signature = { inputs: tensors(inputs), outputs: tensors(outputs), method_name: predictMethod }
    const document = {
      model_spec: { name, signature_name: '', version: found.version },
      metadata: { signature_def: { signature_def: { [defaultSignature]: signature } } },
    }
    return Buffer.from(`${JSON.stringify(document, null, 1)}\n`)
  }

  /** Throws NOT_FOUND with TensorFlow Serving's text. */
  find(name: string, version: string): ReturnType<Engine['findVersion']> {
    try {
      return this.#parts.engine.findVersion(name, version)
    } catch {
      throw servableNotFound(name, version)
    }
  }

  /** Serves these models and no others of an earlier configuration. Throws when one of them cannot be loaded. */
  reload(entries: readonly ServingEntry[], origin: ChangeOrigin): Promise<void> {
    return this.#changes.pass(() => this.#reload(entries, origin))
  }

  requireReload(): void {
    if (this.#parts.allowsReload && this.#parts.folders !== null) return
    throw ServerError.withoutStack(
      'UNSUPPORTED',
      'this server does not let clients change which models it serves: start it with --allow-tfserving-reload',
    )
  }

  async #reload(entries: readonly ServingEntry[], origin: ChangeOrigin): Promise<void> {
    const { engine, folders } = this.#parts
    if (folders === null) return this.requireReload()
    const wanted = new Set(entries.map(({ name }) => name))
    for (const name of [...this.#entries.keys()].filter((one) => !wanted.has(one))) {
      const { gone } = await engine.unload(name, false, origin)
      this.#entries.delete(name)
      this.#labels.delete(name)
      void gone.then(() => (this.#entries.has(name) ? undefined : folders.unmap(name)))
    }
    const failures: unknown[] = []
    for (const entry of entries) {
      const { name } = entry
      try {
        folders.map(name, entry)
        await engine.load(name, null, origin)
        this.#note(entry)
      } catch (reason) {
        this.#log.error(`ReloadConfig failed for model '${name}'`, { reason: String(reason) })
        failures.push(reason)
        // A model that served before goes on from the folder that it had.
        const old = this.#entries.get(name)
        if (old === undefined) await folders.unmap(name)
        else folders.map(name, old)
      }
    }
    if (failures.length > 0) throw failures[0]
  }
}

export function servableNotFound(name: string, version: string): ServerError {
  const which = version === '' ? `Latest(${name})` : `Specific(${name}, ${version})`
  return ServerError.withoutStack('NOT_FOUND', `Servable not found for request: ${which}`)
}

type TensorSide = { readonly name: string; readonly dataType: DataType; readonly shape: Shape }

function sidesOf({ inputs, outputs, isBatching }: ModelSignature): {
  readonly inputs: TensorSide[]
  readonly outputs: TensorSide[]
} {
  const side = ({ name, dataType, dims }: { name: string; dataType: DataType; dims: Shape }): TensorSide => ({
    name,
    dataType,
    shape: isBatching ? [-1, ...dims] : dims,
  })
  return { inputs: inputs.map(side), outputs: outputs.map(side) }
}

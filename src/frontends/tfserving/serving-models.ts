// What TensorFlow Serving's clients ask about models: their versions and labels, their states, their signatures; and the change
// of the set of models that is served.

import type { Log } from '../../base/log.ts'
import { messageOf, ServerError } from '../../base/server-error.ts'
import { Turnstile } from '../../base/turnstile.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ChangeOrigin } from '../../model/change-origin.ts'
import type { FolderMap } from '../../model/folder-map.ts'
import type { MessageValue } from '../../protocol/grpc/message-codec.ts'
import { invalid } from '../../protocol/tfserving/predict-request.ts'
import { servingJson } from '../../protocol/tfserving/serving-messages.ts'
import { tensorflowEnumName, defaultSignature } from '../../protocol/tfserving/tensorflow-type.ts'
import type { ServingEntry } from '../../protocol/tfserving/serving-config.ts'
import type { WireModelSpec } from '../../protocol/tfserving/serving-request.ts'
import type { DataType } from '../../tensor/data-type.ts'
import type { Shape } from '../../tensor/shape.ts'

type ServingModelParts = {
  readonly engine: Engine
  readonly log: Log
  readonly folders: FolderMap
  /** The models that the server began with. */
  readonly entries: readonly ServingEntry[]
  /** `--allow-tfserving-reload` */
  readonly allowsReload: boolean
  /** The configuration of every model whose folder has none; left out: nothing. */
  readonly sharedConfigText?: string
}

/** As ModelVersionStatus names the states. */
const stateOf = {
  READY: 'AVAILABLE',
  LOADING: 'LOADING',
  UNLOADING: 'UNLOADING',
  UNAVAILABLE: 'END',
  '': 'START',
} as const

const predictMethod = 'tensorflow/serving/predict'

export class ServingModels {
  readonly #parts: ServingModelParts
  readonly #log: Log
  /** The models of the configuration: a new one replaces them. */
  readonly #entries = new Map<string, ServingEntry>()
  /** The models of the last configuration that could not be loaded: their states are told until the next one. */
  #failed: readonly string[] = []
  readonly #changes = new Turnstile(1)

  constructor(parts: ServingModelParts) {
    this.#parts = parts
    this.#log = parts.log.from('serving-models.ts')
    for (const entry of parts.entries) this.#entries.set(entry.name, entry)
  }

  get sharedConfigText(): string {
    return this.#parts.sharedConfigText ?? ''
  }

  /** The version that a request asks for; '': the highest. Throws INVALID_ARG without a name, and for a label that stands for none. */
  versionOf({ name, version: number, label }: Omit<WireModelSpec, 'signature'>): string {
    if (name === '') throw invalid('ModelSpec has no name specified.')
    if (label === null) return number
    const version = this.#entries.get(name)?.labels.get(label)
    if (version === undefined) throw invalid(`Unrecognized servable version label: ${label}`)
    return version
  }

  /** GetModelStatusResponse: the highest version first. Throws NOT_FOUND with TensorFlow Serving's texts. */
  statusMessage(name: string, version: string): MessageValue {
    const entries = this.#parts.engine.index().filter((entry) => entry.name === name && entry.version !== '')
    const found = entries.filter((entry) => version === '' || entry.version === version)
    if (found.length === 0) {
      const what = version === '' ? `any versions of model ${name}` : `version ${version} of model ${name}`
      throw ServerError.withoutStack('NOT_FOUND', `Could not find ${what}`)
    }
    found.sort((one, other) => (BigInt(one.version) > BigInt(other.version) ? -1 : 1))
    const modelVersionStatus = found.map(({ version: one, state, reason }) => {
      const errorMessage = state === 'UNAVAILABLE' && reason !== 'unloaded' ? reason : ''
      const status = { errorCode: errorMessage === '' ? 'OK' : 'UNKNOWN', errorMessage }
      return { version: BigInt(one), state: stateOf[state], status }
    })
    return { modelVersionStatus }
  }

  statusJson(name: string, version: string): Buffer {
    return printed(servingJson('GetModelStatusResponse', this.statusMessage(name, version)))
  }

  /** SignatureDefMap. Throws NOT_FOUND. */
  metadataMessage(name: string, version: string): { readonly version: string; readonly signatures: MessageValue } {
    const { signature, version: found } = this.#find(name, version)
    const tensors = (sides: readonly TensorSide[]): Map<string, MessageValue> =>
      new Map(
        sides.map((side) => {
          const sizes = signature.isBatching ? [-1, ...side.dims] : side.dims
          const tensorShape = { dim: sizes.map((size) => ({ size: BigInt(size) })) }
          return [side.name, { dtype: tensorflowEnumName(side.dataType), tensorShape, name: `${side.name}:0` }]
        }),
      )
    const [inputs, outputs] = [tensors(signature.inputs), tensors(signature.outputs)]
    const described = { inputs, outputs, methodName: predictMethod }
    return {
      version: found,
      signatures: { signatureDef: new Map([[signature.chosenName || defaultSignature, described]]) },
    }
  }

  metadataJson(name: string, version: string): Buffer {
    const { version: found, signatures } = this.metadataMessage(name, version)
    return printed({
      model_spec: { name, signature_name: '', version: found },
      metadata: { signature_def: servingJson('SignatureDefMap', signatures) },
    })
  }

  /** Throws NOT_FOUND with TensorFlow Serving's text. */
  #find(name: string, version: string): ReturnType<Engine['findVersion']> {
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
    if (this.#parts.allowsReload) return
    throw ServerError.withoutStack(
      'UNSUPPORTED',
      'this server does not let clients change which models it serves: start it with --allow-tfserving-reload',
    )
  }

  async #reload(entries: readonly ServingEntry[], origin: ChangeOrigin): Promise<void> {
    const { engine, folders } = this.#parts
    const wanted = new Set(entries.map(({ name }) => name))
    for (const name of [...this.#entries.keys()].filter((one) => !wanted.has(one))) {
      const { gone } = await engine.unload(name, false, origin)
      this.#entries.delete(name)
      void gone.then(() => (this.#entries.has(name) ? undefined : folders.unmap(name)))
    }
    for (const name of this.#failed) engine.forget(name)
    const failures = new Map<string, unknown>()
    for (const entry of entries) {
      const { name } = entry
      try {
        folders.map(name, entry)
        await engine.load(name, null, origin)
        this.#entries.set(name, entry)
      } catch (reason) {
        this.#log.error(`ReloadConfig failed for model '${name}'`, { reason: String(reason) })
        failures.set(name, reason)
        // A model that served before goes on from the folder that it had.
        const old = this.#entries.get(name)
        if (old === undefined) await folders.unmap(name)
        else folders.map(name, old)
      }
    }
    this.#failed = [...failures.keys()]
    if (failures.size === 0) return
    const each = [...failures].map(([name, reason]) => `{{name: ${name}} due to error: ${messageOf(reason)}}, `)
    const text = `${failures.size} model(s) did not become available: {${each.join('')}}`
    throw new ServerError('UNKNOWN', text, { cause: [...failures.values()][0] })
  }
}

/** As protobuf prints JSON for people to read. */
const printed = (document: MessageValue): Buffer => Buffer.from(`${JSON.stringify(document, null, 1)}\n`)

function servableNotFound(name: string, version: string): ServerError {
  const which = version === '' ? `Latest(${name})` : `Specific(${name}, ${version})`
  return ServerError.withoutStack('NOT_FOUND', `Servable not found for request: ${which}`)
}

/** The error of a request for which no version was chosen: TensorFlow Serving knows one reason for that. */
export function notChosen(error: ServerError, name: string, version: string): ServerError {
  return error.code === 'NOT_FOUND' || error.code === 'INVALID_ARG' ? servableNotFound(name, version) : error
}

type TensorSide = { readonly name: string; readonly dataType: DataType; readonly dims: Shape }

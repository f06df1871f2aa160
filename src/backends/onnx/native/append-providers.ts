// Adds execution providers to the options of a session.

import type { AcceleratorName } from '../../../config/accelerator-keys.ts'
import type { ProviderSettings } from '../execution-providers.ts'
import { addressOf, cString, type Address, type OrtLibrary, type Prototype } from './ort-library.ts'

/** The functions of a provider in the C API; one without `create` takes keys and values at once. */
type ProviderFunctions = {
  readonly append: Prototype
  readonly create?: Prototype
  readonly update?: Prototype
  readonly release?: Prototype
}

const update = (index: number): Prototype => [index, 'a', 'a, p, p, size_t']

const functionsOf: Readonly<Record<AcceleratorName, ProviderFunctions>> = {
  cuda: {
    append: [204, 'a', 'a, a'],
    create: [205, 'a', 'p'],
    update: update(206),
    release: [208, 'void', 'a'],
  },
  tensorrt: {
    append: [170, 'a', 'a, a'],
    create: [171, 'a', 'p'],
    update: update(172),
    release: [174, 'void', 'a'],
  },
  dnnl: {
    append: [239, 'a', 'a, a'],
    create: [240, 'a', 'p'],
    update: update(241),
    release: [243, 'void', 'a'],
  },
  openvino: { append: update(275) },
}

/** Calls a function of the C API with two arguments on another thread; resolves to its OrtStatus. */
type CallElsewhere = (functionAddress: Address, first: Address, second: Address) => Promise<Address>

/** The first time ONNX Runtime reads the provider's library, which takes a while: this happens on another thread. */
export async function appendProvider(
  library: OrtLibrary,
  sessionOptions: Address,
  { name, options }: ProviderSettings,
  callElsewhere: CallElsewhere,
): Promise<void> {
  const { append, create, update: change, release } = functionsOf[name]
  const keys = texts(options.map(([key]) => key))
  const values = texts(options.map(([, value]) => value))
  if (create === undefined || change === undefined || release === undefined) {
    library.check(library.bind(append)(sessionOptions, keys.pointers, values.pointers, options.length))
    return
  }
  const made = library.made((out) => library.bind(create)(out))
  try {
    if (options.length > 0) library.check(library.bind(change)(made, keys.pointers, values.pointers, options.length))
    library.check(await callElsewhere(library.addressOfFunction(append), sessionOptions, made))
  } finally {
    library.bind(release)(made)
  }
}

/** `const char* const*`; the texts must live as long as the pointers are read. */
function texts(list: readonly string[]): { readonly pointers: BigUint64Array; readonly kept: readonly Uint8Array[] } {
  const kept = list.map(cString)
  const pointers = new BigUint64Array(new ArrayBuffer(8 * Math.max(1, list.length)))
  for (const [i, text] of kept.entries()) pointers[i] = BigInt(addressOf(text))
  return { pointers, kept }
}

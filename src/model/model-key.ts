// The unique key of a model. Without `--model-namespacing` the key is the model's name. With `--model-namespacing`
// several repositories may have a model of one name, and the repository (the namespace) is part of the key.

/** The name, or `<namespace>\0<name>`; neither a path nor a name holds a NUL. */
export type ModelKey = string

/** Undefined: models have no namespaces. '' is the namespace of models that came with a load request. */
export function modelKey(namespace: string | undefined, name: string): ModelKey {
  return namespace === undefined ? name : `${namespace}\0${name}`
}

export function splitModelKey(key: ModelKey): { readonly namespace: string | undefined; readonly name: string } {
  const at = key.indexOf('\0')
  if (at < 0) return { namespace: undefined, name: key }
  return { namespace: key.slice(0, at), name: key.slice(at + 1) }
}

/** The key as logs and errors show it, and as a client may write it: `<namespace>::<name>`. */
export function modelLabel(key: ModelKey): string {
  const { namespace = '', name } = splitModelKey(key)
  return namespace === '' ? name : `${namespace}::${name}`
}

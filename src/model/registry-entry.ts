// What people say about a model beside its configuration: who owns it, where it comes from, how good it is.

/** A plain JSON value. */
export type RegistryValue =
  null | boolean | number | string | readonly RegistryValue[] | { readonly [key: string]: RegistryValue }

/** As in the registry file, key by key; one that was not said is not there. */
export type RegistryFields = {
  readonly owner?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly framework?: string
  readonly trainingData?: readonly string[]
  readonly metrics?: Readonly<Record<string, number>>
  readonly approvedBy?: readonly string[]
  readonly lineage?: { readonly parentVersion?: string; readonly sourceUri?: string }
  /** Keys that have no meaning here, kept as they are. */
  readonly extra?: Readonly<Record<string, RegistryValue>>
}

export type RegistryEntry = {
  readonly fields: RegistryFields
  /** What is different for single versions. */
  readonly versions: ReadonlyMap<string, RegistryFields>
}

export const emptyRegistryEntry: RegistryEntry = { fields: {}, versions: new Map() }

/** What holds for one version: each key that it says itself stands in place of the model's. */
export const fieldsOfVersion = (entry: RegistryEntry, version: string): RegistryFields => ({
  ...entry.fields,
  ...entry.versions.get(version),
})

// Entries that people write about a model beside its configuration: its owner, its origin, its quality.

/** A plain JSON value. */
export type RegistryValue =
  null | boolean | number | string | readonly RegistryValue[] | { readonly [key: string]: RegistryValue }

/** The keys of the registry file. A key that the file does not have is missing here too. */
export type RegistryFields = {
  readonly owner?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly framework?: string
  readonly trainingData?: readonly string[]
  readonly metrics?: Readonly<Record<string, number>>
  readonly approvedBy?: readonly string[]
  readonly lineage?: { readonly parentVersion?: string; readonly sourceUri?: string }
  /** What an hour of one instance of the model costs. Of the model as a whole, never of one version. */
  readonly cost?: { readonly instanceHour: number }
  /** Keys that the server does not know, kept as they are. */
  readonly extra?: Readonly<Record<string, RegistryValue>>
}

export type RegistryEntry = {
  readonly fields: RegistryFields
  /** Fields of single versions that differ from the model's. */
  readonly versions: ReadonlyMap<string, RegistryFields>
}

export const emptyRegistryEntry: RegistryEntry = { fields: {}, versions: new Map() }

/** The fields of one version: a key of the version replaces the same key of the model. */
export const fieldsOfVersion = (entry: RegistryEntry, version: string): RegistryFields => ({
  ...entry.fields,
  ...entry.versions.get(version),
})

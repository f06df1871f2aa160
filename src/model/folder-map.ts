/** A folder that is a model under a name that a front end chose. */
export type MappedModel = {
  /** A folder of this machine, or an address such as `s3://bucket/models/resnet`. */
  readonly folder: string
  /** The configuration of a model whose folder has none; null: it is completed from the model's files. */
  readonly configText: string | null
  /** The version policy of a model whose own configuration has none; left out: there is no other. */
  readonly versionPolicyText?: string
  /** True: the names of version folders may begin with zeros, as `00000123` does; left out: such folders are no versions. */
  readonly hasPaddedVersions?: boolean
}

/** The part of the mapped folders that front ends need. */
export type FolderMap = {
  readonly models: ReadonlyMap<string, unknown>
  /** Throws INVALID_ARG for a name that no model can have. */
  map(name: string, model: MappedModel): void
  /** Call this when the model is gone: a model that serves may still read its files. */
  unmap(name: string): Promise<void>
}

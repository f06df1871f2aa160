// Where model repositories lie. One implementation per kind of storage; every path is relative to a repository's root,
// and no store hands out anything that lies outside it.

export type StoreEntryKind = 'file' | 'directory' | 'outside' | 'device' | 'other'

export type StoreEntry = {
  readonly name: string
  /**
   * A link has the kind of its target. `outside`: the target is not in the repository. `device`: a pipe or a device, whoever opens
   * it may wait for ever. `other`: dangling links and sockets.
   */
  readonly kind: StoreEntryKind
  readonly isLink: boolean
  /** Of files; 0 for everything else. */
  readonly modifiedMs: number
  readonly sizeBytes: number
  /** Stands for a file's content: equal as long as the bytes are equal. Where the store does not know it, time and size count. */
  readonly contentId?: string
}

export type ListOptions = {
  /** Whether to read files that may have changed, however large they are, to know their content. */
  readonly isExact?: boolean
}

export type StoreStat = {
  readonly isDirectory: boolean
  readonly modifiedMs: number
  readonly sizeBytes: number
}

export interface RepositoryStore {
  /** What lies in a folder, sorted by name. Throws NOT_FOUND when there is no such folder. */
  list(root: string, path: string, options?: ListOptions): Promise<StoreEntry[]>
  /** Null when there is nothing at this path. */
  stat(root: string, path: string): Promise<StoreStat | null>
  /** Throws NOT_FOUND when there is no such file, INVALID_ARG when the file is longer than `limitBytes`. */
  readText(root: string, path: string, limitBytes: number): Promise<string>
  /** A folder on this machine with the content of `path`; files that lie elsewhere are downloaded first. */
  localise(root: string, path: string): Promise<string>
  /** Whether a model of this root is named by its place, whatever name its configuration has. Left out: none is. */
  renames?(root: string): boolean
}

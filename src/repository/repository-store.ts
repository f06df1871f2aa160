// Where model repositories lie. One implementation per kind of storage; every path is relative to a repository's root,
// and no store hands out anything that lies outside it.

export type StoreEntryKind = 'file' | 'directory' | 'outside' | 'other'

export type StoreEntry = {
  readonly name: string
  /** Of what a link leads to; `outside` when that is not in the repository, `other` for dangling links and devices. */
  readonly kind: StoreEntryKind
  readonly isLink: boolean
  /** Of files; 0 for everything else. */
  readonly modifiedMs: number
  readonly sizeBytes: number
  /** Of files, where the store knows: equal as long as the bytes are. Without it time and size stand in. */
  readonly contentId?: string
}

export type ListOptions = {
  /** Whether to read what may have changed, however large it is, to know its content. */
  readonly isExact?: boolean
}

export type StoreStat = {
  readonly isDirectory: boolean
  readonly modifiedMs: number
  readonly sizeBytes: number
}

export interface RepositoryStore {
  /** What lies in a folder, by name. Throws NOT_FOUND when it is not there. */
  list(root: string, path: string, options?: ListOptions): Promise<StoreEntry[]>
  /** Null when there is nothing. */
  stat(root: string, path: string): Promise<StoreStat | null>
  /** Throws NOT_FOUND when it is not there, INVALID_ARG when it is longer than `limitBytes`. */
  readText(root: string, path: string, limitBytes: number): Promise<string>
  /** A folder on this machine with the content of `path`, made if need be. */
  localise(root: string, path: string): Promise<string>
}

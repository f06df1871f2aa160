// What a repository elsewhere offers: the names of its models, the files of each, and a file's bytes.

export type RemoteFile = {
  /** Below the model's folder, written with `/`; checked to lead nowhere else. */
  readonly path: string
  /** An empty folder that somebody made; all others come with their files. */
  readonly isFolder: boolean
  readonly sizeBytes: number
  /** Changes when the content does: an ETag, a generation. */
  readonly tag: string
  /** Of the content, in base64, where the store knows it. */
  readonly md5: string | null
}

export type DownloadProgress = (bytes: number) => void

export interface RemoteTree {
  /** Names of the folders that may be models. One listing; nothing is downloaded. */
  modelNames(): Promise<string[]>
  /** Every file of a model, by path. One listing; nothing is downloaded. Empty when there is no such model. */
  files(model: string): Promise<RemoteFile[]>
  /** The file in the cache, downloaded if need be: the hash of its content. */
  fetch(model: string, file: RemoteFile, progress: DownloadProgress): Promise<string>
  close(): void
}

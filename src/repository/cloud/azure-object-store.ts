import { ServerError } from '../../base/server-error.ts'
import type { CloudCredential, Environment } from './cloud-credentials.ts'
import type { BucketLocation } from './cloud-location.ts'
import type { ObjectUpload, StoredObject, WritableStore } from './object-store.ts'
import { importPackage } from '../../base/import-package.ts'

/** What is used of @azure/storage-blob. */
type AzureSdk = {
  readonly ContainerClient: new (url: string, credential: unknown, settings: object) => Container
  readonly BlobServiceClient: {
    fromConnectionString(text: string, settings: object): { getContainerClient(name: string): Container }
  }
  readonly StorageSharedKeyCredential: new (account: string, key: string) => unknown
  readonly AnonymousCredential: new () => unknown
}
type Listed = { readonly kind?: string; readonly name: string; readonly properties?: BlobProperties }
type BlobProperties = { readonly contentLength?: number; readonly etag?: string; readonly contentMD5?: Uint8Array }
type Container = {
  listBlobsByHierarchy(delimiter: string, options: object): AsyncIterable<Listed>
  listBlobsFlat(options: object): AsyncIterable<Listed>
  getBlobClient(name: string): {
    download(offset: number, count: undefined, options: object): Promise<Downloaded>
  }
  getBlockBlobClient(name: string): BlockBlob
}
type BlockBlob = {
  stageBlock(id: string, bytes: Buffer, length: number, options: object): Promise<unknown>
  commitBlockList(ids: readonly string[], options: object): Promise<unknown>
}
type Downloaded = { readonly readableStreamBody?: AsyncIterable<Uint8Array> & { destroy?(): void } }
type IdentitySdk = {
  readonly DefaultAzureCredential: new () => unknown
  readonly ManagedIdentityCredential: new (settings?: { readonly clientId: string }) => unknown
}

/** Azure Blob Storage; an emulator where the address or AZURE_STORAGE_CONNECTION_STRING names one. */
export async function openAzure(
  location: BucketLocation,
  credential: CloudCredential,
  environment: Environment,
): Promise<WritableStore> {
  requireAuthType(credential.auth_type ?? '')
  const sdk = await importPackage<AzureSdk>('@azure/storage-blob', 'a repository in as://')
  // Trying again is done in one place for all stores.
  const settings = { retryOptions: { maxTries: 1 } }
  const connection = environment['AZURE_STORAGE_CONNECTION_STRING'] ?? ''
  const hasOwn = (credential.account_key ?? '') !== '' || (credential.auth_type ?? '') !== ''
  if (connection !== '' && !hasOwn && location.endpoint?.startsWith('http:') !== true) {
    const service = openConnection(sdk, connection, settings)
    return new AzureObjectStore(service.getContainerClient(location.bucket), location)
  }
  const endpoint = location.endpoint ?? `https://${location.account}.blob.core.windows.net`
  const sas = (environment['AZURE_STORAGE_SAS_TOKEN'] ?? '').replace(/^\?/, '')
  const url = `${endpoint}/${encodeURIComponent(location.bucket)}${sas === '' || hasOwn ? '' : `?${sas}`}`
  const client = new sdk.ContainerClient(url, await azureCredential(sdk, location, credential), settings)
  return new AzureObjectStore(client, location)
}

function openConnection(
  sdk: AzureSdk,
  connection: string,
  settings: object,
): ReturnType<AzureSdk['BlobServiceClient']['fromConnectionString']> {
  try {
    return sdk.BlobServiceClient.fromConnectionString(connection, settings)
  } catch {
    // The library's message may quote the text, and with it the key.
    throw new ServerError('INVALID_ARG', 'AZURE_STORAGE_CONNECTION_STRING is not a connection string')
  }
}

/** A type that is misspelt would end in an anonymous access, which Azure refuses without saying why. */
function requireAuthType(authType: string): void {
  if (authType === '' || authType === 'managed_identity' || authType === 'default') return
  const what = `Unable to create Azure filesystem client: the auth_type (AZURE_STORAGE_AUTH_TYPE) '${authType}' is not known`
  throw new ServerError('INVALID_ARG', `${what}, expected managed_identity or default`)
}

async function azureCredential(sdk: AzureSdk, location: BucketLocation, credential: CloudCredential): Promise<unknown> {
  const { account_str = '', account_key = '', auth_type = '', client_id = '' } = credential
  if (auth_type === 'managed_identity' || auth_type === 'default') {
    const identity = await importPackage<IdentitySdk>('@azure/identity', `the Azure credential type '${auth_type}'`)
    if (auth_type === 'default') return new identity.DefaultAzureCredential()
    return client_id === ''
      ? new identity.ManagedIdentityCredential()
      : new identity.ManagedIdentityCredential({ clientId: client_id })
  }
  if (account_key === '') return new sdk.AnonymousCredential()
  return new sdk.StorageSharedKeyCredential(account_str === '' ? location.account : account_str, account_key)
}

class AzureObjectStore implements WritableStore {
  readonly identity: string
  readonly #container: Container

  constructor(container: Container, { endpoint, account, bucket }: BucketLocation) {
    this.#container = container
    this.identity = `as ${endpoint ?? ''} ${account} ${bucket}`
  }

  async folders(prefix: string, abortSignal: AbortSignal): Promise<string[]> {
    const folders: string[] = []
    for await (const { kind, name } of this.#container.listBlobsByHierarchy('/', { prefix, abortSignal })) {
      if (kind === 'prefix') folders.push(name)
    }
    return folders
  }

  async objects(prefix: string, limit: number, abortSignal: AbortSignal): Promise<StoredObject[]> {
    const objects: StoredObject[] = []
    for await (const { name, properties = {} } of this.#container.listBlobsFlat({ prefix, abortSignal })) {
      const { contentLength = 0, etag = '', contentMD5 } = properties
      const md5 = contentMD5 === undefined ? null : Buffer.from(contentMD5).toString('base64')
      objects.push({ key: name, sizeBytes: contentLength, tag: etag, md5 })
      if (objects.length > limit) break
    }
    return objects
  }

  async read(
    { key, tag, sizeBytes }: StoredObject,
    offset: number,
    abortSignal: AbortSignal,
  ): Promise<AsyncIterable<Uint8Array>> {
    const conditions = tag === '' ? {} : { ifMatch: quoted(tag) }
    const options = { abortSignal, conditions, maxRetryRequests: 0 }
    const from = sizeBytes === 0 ? 0 : offset
    const { readableStreamBody } = await this.#container.getBlobClient(key).download(from, undefined, options)
    if (readableStreamBody === undefined) throw new ServerError('INTERNAL', 'an answer without content')
    return readableStreamBody
  }

  upload(key: string): Promise<ObjectUpload> {
    return Promise.resolve(new AzureUpload(this.#container.getBlockBlobClient(key)))
  }

  close(): void {
    // The library keeps nothing open.
  }
}

/** Blocks that were sent are kept for a week. They belong to the object, so that there is nothing to remember. */
class AzureUpload implements ObjectUpload {
  readonly #blob: BlockBlob
  readonly state = ''

  constructor(blob: BlockBlob) {
    this.#blob = blob
  }

  async part(number: number, _: number, bytes: Buffer, abortSignal: AbortSignal): Promise<void> {
    await this.#blob.stageBlock(blockId(number), bytes, bytes.length, { abortSignal })
  }

  async complete(number: number, from: number, rest: Buffer, abortSignal: AbortSignal): Promise<void> {
    if (rest.length > 0) await this.part(number, from, rest, abortSignal)
    const ids = Array.from({ length: number + (rest.length > 0 ? 1 : 0) }, (_, i) => blockId(i))
    await this.#blob.commitBlockList(ids, { abortSignal, blobHTTPHeaders: { blobContentType: 'application/jsonl' } })
  }

  /** Azure forgets the blocks by itself: to delete them now would need an object that is there. */
  abort(): Promise<void> {
    return Promise.resolve()
  }
}

const blockId = (number: number): string => Buffer.from(String(number).padStart(6, '0')).toString('base64')

/** Listings give ETags without quotes, requests want them with. */
const quoted = (tag: string): string => (tag.startsWith('"') || tag.startsWith('W/') ? tag : `"${tag}"`)

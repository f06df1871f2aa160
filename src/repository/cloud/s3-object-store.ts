import { ServerError } from '../../base/server-error.ts'
import type { CloudCredential } from './cloud-credentials.ts'
import type { BucketLocation } from './cloud-location.ts'
import type { ObjectUpload, StoredObject, WritableStore } from './object-store.ts'
import { importPackage } from '../../base/import-package.ts'

/** What is used of @aws-sdk/client-s3. */
type S3Sdk = {
  readonly S3Client: new (settings: Record<string, unknown>) => S3Client
  readonly ListObjectsV2Command: new (input: Record<string, unknown>) => object
  readonly GetObjectCommand: new (input: Record<string, unknown>) => object
  readonly CreateMultipartUploadCommand: new (input: Record<string, unknown>) => object
  readonly UploadPartCommand: new (input: Record<string, unknown>) => object
  readonly CompleteMultipartUploadCommand: new (input: Record<string, unknown>) => object
  readonly AbortMultipartUploadCommand: new (input: Record<string, unknown>) => object
}
type S3Client = {
  send(command: object, options: { readonly abortSignal: AbortSignal }): Promise<unknown>
  destroy(): void
}
type Listing = {
  readonly CommonPrefixes?: readonly { readonly Prefix?: string }[]
  readonly Contents?: readonly { readonly Key?: string; readonly Size?: number; readonly ETag?: string }[]
  readonly NextContinuationToken?: string
}
type CredentialSdk = { readonly fromIni: (settings: { readonly profile: string }) => unknown }

const connectMs = 10_000

/** Amazon S3, or a store that speaks its protocol. */
export async function openS3(location: BucketLocation, credential: CloudCredential): Promise<WritableStore> {
  const sdk = await importPackage<S3Sdk>('@aws-sdk/client-s3', 'a repository in s3://')
  const client = new sdk.S3Client({
    region: credential.region || 'us-east-1',
    // Stores of one's own are rarely set up to have a host name for each bucket.
    ...(location.endpoint === null ? {} : { endpoint: location.endpoint, forcePathStyle: true }),
    ...(await credentialSetting(credential)),
    // Trying again is done in one place for all stores.
    maxAttempts: 1,
    followRegionRedirects: true,
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestChecksumCalculation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: connectMs },
  })
  return new S3ObjectStore(sdk, client, location)
}

/** Without one, the library asks the environment, its profiles, and the machine it runs on. */
async function credentialSetting(credential: CloudCredential): Promise<Record<string, unknown>> {
  const { key_id = '', secret_key = '', session_token = '', profile = '' } = credential
  if (key_id !== '') {
    const session = session_token === '' ? {} : { sessionToken: session_token }
    return { credentials: { accessKeyId: key_id, secretAccessKey: secret_key, ...session } }
  }
  if (profile === '') return {}
  const { fromIni } = await importPackage<CredentialSdk>('@aws-sdk/credential-providers', 'an AWS profile')
  return { credentials: fromIni({ profile }) }
}

class S3ObjectStore implements WritableStore {
  readonly identity: string
  readonly #sdk: S3Sdk
  readonly #client: S3Client
  readonly #bucket: string

  constructor(sdk: S3Sdk, client: S3Client, { endpoint, bucket }: BucketLocation) {
    this.#sdk = sdk
    this.#client = client
    this.#bucket = bucket
    this.identity = `s3 ${endpoint ?? ''} ${bucket}`
  }

  async folders(prefix: string, signal: AbortSignal): Promise<string[]> {
    const folders: string[] = []
    for await (const { CommonPrefixes = [] } of this.#pages({ Prefix: prefix, Delimiter: '/' }, signal)) {
      folders.push(...CommonPrefixes.map(({ Prefix = '' }) => Prefix))
    }
    return folders
  }

  async objects(prefix: string, limit: number, signal: AbortSignal): Promise<StoredObject[]> {
    const objects: StoredObject[] = []
    for await (const { Contents = [] } of this.#pages({ Prefix: prefix }, signal)) {
      for (const { Key = '', Size = 0, ETag = '' } of Contents) {
        // An ETag is the MD5 of some objects only, and does not say of which.
        objects.push({ key: Key, sizeBytes: Size, tag: ETag, md5: null })
      }
      if (objects.length > limit) break
    }
    return objects
  }

  async read({ key, tag }: StoredObject, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const range = offset === 0 ? {} : { Range: `bytes=${offset}-` }
    const ifMatch = tag === '' ? {} : { IfMatch: tag }
    const command = new this.#sdk.GetObjectCommand({ Bucket: this.#bucket, Key: key, ...range, ...ifMatch })
    const { Body } = (await this.#send(command, signal)) as { readonly Body?: AsyncIterable<Uint8Array> }
    if (Body === undefined) throw new ServerError('INTERNAL', `an answer without content`)
    return Body
  }

  async upload(key: string, state: string | null, signal: AbortSignal): Promise<ObjectUpload> {
    const place = { Bucket: this.#bucket, Key: key }
    const send = (command: object, during: AbortSignal): Promise<unknown> => this.#send(command, during)
    if (state !== null) return new S3Upload(this.#sdk, send, place, JSON.parse(state) as S3UploadState)
    const command = new this.#sdk.CreateMultipartUploadCommand({ ...place, ContentType: 'application/jsonl' })
    const { UploadId: id = '' } = (await this.#send(command, signal)) as { readonly UploadId?: string }
    return new S3Upload(this.#sdk, send, place, { id, tags: [] })
  }

  close(): void {
    this.#client.destroy()
  }

  async *#pages(input: Record<string, unknown>, signal: AbortSignal): AsyncGenerator<Listing> {
    let token: string | undefined
    do {
      const more = token === undefined ? {} : { ContinuationToken: token }
      const command = new this.#sdk.ListObjectsV2Command({ Bucket: this.#bucket, ...input, ...more })
      const page = (await this.#send(command, signal)) as Listing
      yield page
      token = page.NextContinuationToken
    } while (token !== undefined && token !== '')
  }

  async #send(command: object, signal: AbortSignal): Promise<unknown> {
    try {
      return await this.#client.send(command, { abortSignal: signal })
    } catch (reason) {
      const { name, message } = reason as Error
      if (name !== 'CredentialsProviderError' && !/^(InvalidAccessKeyId|SignatureDoesNotMatch)$/.test(name))
        throw reason
      const what = `Unable to create S3 filesystem client. Check account credentials. Exception: '${name}' Message: '${message}'`
      throw new ServerError('INTERNAL', what, { cause: reason })
    }
  }
}

type S3UploadState = { readonly id: string; readonly tags: string[] }

class S3Upload implements ObjectUpload {
  readonly #sdk: S3Sdk
  readonly #send: (command: object, signal: AbortSignal) => Promise<unknown>
  readonly #place: Readonly<Record<string, unknown>>
  readonly #state: S3UploadState

  constructor(
    sdk: S3Sdk,
    send: (command: object, signal: AbortSignal) => Promise<unknown>,
    place: Readonly<Record<string, unknown>>,
    state: S3UploadState,
  ) {
    this.#sdk = sdk
    this.#send = send
    this.#place = { ...place, UploadId: state.id }
    this.#state = state
  }

  get state(): string {
    return JSON.stringify(this.#state)
  }

  async part(number: number, _: number, bytes: Buffer, signal: AbortSignal): Promise<void> {
    const command = new this.#sdk.UploadPartCommand({ ...this.#place, PartNumber: number + 1, Body: bytes })
    const { ETag = '' } = (await this.#send(command, signal)) as { readonly ETag?: string }
    this.#state.tags[number] = ETag
  }

  async complete(number: number, from: number, rest: Buffer, signal: AbortSignal): Promise<void> {
    // An object without a part cannot be: an empty one has an empty part.
    if (rest.length > 0 || number === 0) await this.part(number, from, rest, signal)
    const Parts = this.#state.tags.map((ETag, i) => ({ ETag, PartNumber: i + 1 }))
    await this.#send(new this.#sdk.CompleteMultipartUploadCommand({ ...this.#place, MultipartUpload: { Parts } }), signal) // prettier-ignore
  }

  async abort(signal: AbortSignal): Promise<void> {
    await this.#send(new this.#sdk.AbortMultipartUploadCommand({ ...this.#place }), signal)
  }
}

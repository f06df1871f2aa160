// Where a model repository lies when it is not on this machine, read from the text of `--model-repository`.

import { ServerError } from '../../base/server-error.ts'

export type BucketLocation = {
  readonly kind: 's3' | 'gs' | 'as'
  /** As the user wrote it; also what models of this repository give as their repository path. */
  readonly path: string
  /** `https://host:port`; null for the provider's own. */
  readonly endpoint: string | null
  /** Of Azure; '' elsewhere. */
  readonly account: string
  /** Bucket or container. */
  readonly bucket: string
  /** '' or `folder/folder/`. */
  readonly prefix: string
}

export type ArchiveLocation = {
  readonly kind: 'archive'
  /** Without user name, password and query, which may be secrets. */
  readonly path: string
  readonly url: string
}

type CloudLocation = BucketLocation | ArchiveLocation

const schemes = /^(s3|gs|as|https?):\/\//i

export const isCloudPath = (path: string): boolean => schemes.test(path)

/** Null for a path on this machine. Throws INVALID_ARG for an address that cannot be one of a repository. */
export function parseCloudLocation(path: string): CloudLocation | null {
  const scheme = schemes.exec(path)?.[1]?.toLowerCase()
  if (scheme === undefined) return null
  if (scheme === 'http' || scheme === 'https') return parseArchive(path)
  const rest = path.slice(scheme.length + 3)
  if (scheme === 's3') return parseS3(path, rest)
  if (scheme === 'gs') return bucketIn('gs', path, null, '', rest)
  return parseAzure(path, rest)
}

/** What may be shown and logged of an address: no user name, no password, no query. A path on this machine stays as it is. */
export function withoutSecrets(path: string): string {
  if (!isCloudPath(path)) return path
  return path.replace(/^((?:\w+:\/\/)+)[^/@]*@/, '$1').replace(/[?#].*$/, '')
}

function parseS3(path: string, rest: string): BucketLocation {
  const withProtocol = /^(https?:\/\/[^/]+)\/?(.*)$/.exec(rest)
  if (withProtocol !== null) return bucketIn('s3', path, withProtocol[1] ?? '', '', withProtocol[2] ?? '')
  // A bucket's name has no colon, so this is a host: `s3://localhost:9000/bucket/models`, without TLS as in Triton.
  const hostAndPort = /^([^/]+:\d+)\/?(.*)$/.exec(rest)
  if (hostAndPort !== null) return bucketIn('s3', path, `http://${hostAndPort[1] ?? ''}`, '', hostAndPort[2] ?? '')
  return bucketIn('s3', path, null, '', rest)
}

/** `as://account/…`, `as://account.blob.core.windows.net/…`, or an endpoint of one's own: `as://http://host:port/account/…`. */
function parseAzure(path: string, rest: string): BucketLocation {
  const own = /^(https?:\/\/[^/]+)\/([^/]+)\/?(.*)$/.exec(rest)
  if (own !== null) return bucketIn('as', path, `${own[1] ?? ''}/${own[2] ?? ''}`, own[2] ?? '', own[3] ?? '')
  const [host = '', ...folders] = rest.split('/')
  const account = host.split('.')[0] ?? ''
  if (account === '') throw new ServerError('INVALID_ARG', `No storage account found in path: ${withoutSecrets(path)}`)
  const endpoint = host.includes('.') ? `https://${host}` : null
  return bucketIn('as', path, endpoint, account, folders.join('/'))
}

function bucketIn(
  kind: BucketLocation['kind'],
  path: string,
  endpoint: string | null,
  account: string,
  rest: string,
): BucketLocation {
  const [bucket = '', ...folders] = rest.split('/')
  if (bucket === '') {
    const noun = kind === 'as' ? 'container' : 'bucket'
    throw new ServerError('INVALID_ARG', `No ${noun} name found in path: ${withoutSecrets(path)}`)
  }
  const names = folders.filter((folder) => folder !== '')
  if (names.some((name) => name === '.' || name === '..') || /[\0?#]/.test(rest)) {
    throw new ServerError('INVALID_ARG', `'${withoutSecrets(path)}' is not the address of a model repository`)
  }
  return { kind, path, endpoint, account, bucket, prefix: names.map((name) => `${name}/`).join('') }
}

function parseArchive(path: string): ArchiveLocation {
  const shown = withoutSecrets(path)
  if (!URL.canParse(path)) throw new ServerError('INVALID_ARG', `'${shown}' is not a URL`)
  if (!/\.(tar|tar\.gz|tgz)$/i.test(new URL(path).pathname)) {
    const what = `'${shown}' is not an archive: a repository behind http:// or https:// is one .tar, .tar.gz or .tgz file`
    throw new ServerError('INVALID_ARG', what)
  }
  return { kind: 'archive', path: shown, url: path }
}

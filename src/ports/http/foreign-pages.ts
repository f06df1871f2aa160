// Keeps web pages of other origins from acting on the server. A browser sends simple requests of any page without asking,
// also to addresses that only its own machine reaches. What gives such a request away are headers that no page can set.

import { isLoopbackName } from '../../base/local-address.ts'
import { fieldValue, type HttpRequest } from '../../transport/http1/http-message.ts'

type ForeignPageOptions = {
  readonly address: string
  readonly isTls: boolean
  /** `--http-cors-origin` */
  readonly corsOrigins: readonly string[]
  /** `--http-allowed-hosts`: lower case, without ports; `*` for every name. */
  readonly allowedHosts: readonly string[]
}

/** What a refusal repeats of a header. */
const mostShownCharacters = 200

export class ForeignPages {
  readonly #origins: ReadonlySet<string>
  readonly #scheme: string
  /** Null: every name may stand in `Host`. */
  readonly #hosts: ReadonlySet<string> | null
  /** The last value of `Host` that was good: nearly all requests repeat it. */
  #goodHost = ''

  constructor({ address, isTls, corsOrigins, allowedHosts }: ForeignPageOptions) {
    this.#origins = new Set(corsOrigins)
    this.#scheme = isTls ? 'https://' : 'http://'
    const hasRule = (allowedHosts.length > 0 || isLoopbackName(address)) && !allowedHosts.includes('*')
    this.#hosts = hasRule ? new Set(allowedHosts) : null
  }

  /** Why the request may not pass; null: it may. HOT: once per request. One pass over the names. */
  refusal({ method, headers }: HttpRequest): string | null {
    let host: string | null = null
    let origin: string | null = null
    let site = ''
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string
      if (name === 'Host' || isNamed(name, 'host')) {
        const value = fieldValue(headers[i + 1] as string)
        if (value !== this.#goodHost && !this.#isGoodHost(value)) return hostRefusal(value)
        // Of two values nobody knows which one the client meant.
        host = host === null ? value : ''
      } else if (isNamed(name, 'origin')) {
        origin = origin === null ? fieldValue(headers[i + 1] as string) : 'null'
      } else if (isNamed(name, 'sec-fetch-site')) site += fieldValue(headers[i + 1] as string)
    }
    if (origin === null && site === '') return null
    if (method === 'GET' || method === 'HEAD' || method === 'OPTIONS') return null
    return this.#isForeign(origin, site, host ?? '') ? pageRefusal(origin) : null
  }

  #isForeign(origin: string | null, site: string, host: string): boolean {
    if (this.#origins.has('*')) return false
    if (origin === null) return site !== 'same-origin' && site !== 'none'
    return !this.#origins.has(origin) && !this.#isOwn(origin, host)
  }

  /** A page that this server could have sent itself: the names of loopback count as one. */
  #isOwn(origin: string, host: string): boolean {
    if (host === '' || !origin.startsWith(this.#scheme)) return false
    const name = origin.slice(this.#scheme.length).toLowerCase()
    const asked = host.toLowerCase()
    if (name === asked) return true
    return portOf(name) === portOf(asked) && isLoopbackName(nameOf(name)) && isLoopbackName(nameOf(asked))
  }

  #isGoodHost(value: string): boolean {
    if (this.#hosts === null || value === '') return true
    const name = nameOf(value.toLowerCase())
    const isGood = isLoopbackName(name) || this.#hosts.has(name)
    if (isGood) this.#goodHost = value
    return isGood
  }
}

const lowerCaseBit = 0x20

/** The length and the first letter tell nearly all names apart without making a lower-case copy. */
const isNamed = (name: string, lowerCaseName: string): boolean =>
  name.length === lowerCaseName.length &&
  (name.charCodeAt(0) | lowerCaseBit) === lowerCaseName.charCodeAt(0) &&
  (name === lowerCaseName || name.toLowerCase() === lowerCaseName)

/** `name` of `name:port`, without the dot that may end a name. */
function nameOf(host: string): string {
  const name = host.slice(0, host.length - portOf(host).length)
  return name.endsWith('.') ? name.slice(0, -1) : name
}

/** `:port`, or '' where none is named. The colons of an address in brackets are no ports. */
const portOf = (host: string): string => /:\d*$/.exec(host.slice(host.lastIndexOf(']') + 1))?.[0] ?? ''

const shown = (value: string): string => value.slice(0, mostShownCharacters)

const hostRefusal = (host: string): string =>
  `this server does not answer to the name '${shown(host)}' in the header Host. ` +
  `Use --http-allowed-hosts=${shown(nameOf(host.toLowerCase()))} to allow the name.`

const pageRefusal = (origin: string | null): string =>
  origin === null || origin === 'null'
    ? 'web pages of other origins may not send this request, and this page does not say its origin. ' +
      'Use --http-cors-origin to name the origins that may.'
    : `web pages of the origin '${shown(origin)}' may not send this request. ` +
      `Use --http-cors-origin=${shown(origin)} to allow them.`

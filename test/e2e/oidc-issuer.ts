// A real issuer of tokens: npm's oidc-provider behind a port of its own, with keys that can be exchanged.

import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWTPayload } from 'jose'

type Callback = (request: IncomingMessage, response: ServerResponse) => void

export type OidcIssuer = {
  readonly url: string
  readonly jwks: string
  /** A token by the grant `client_credentials`, signed by the provider. */
  token(audience?: string): Promise<string>
  /** A token with the newest key of the provider, of whatever claims. */
  sign(claims: JWTPayload, header?: { readonly alg?: string; readonly kid?: string }): Promise<string>
  /** From now on tokens are signed with a new key, and the old one is gone. */
  rotate(): Promise<void>
  /** How often the keys were asked for. */
  readonly keyReads: number
  close(): Promise<void>
}

const client = { client_id: 'robot', client_secret: 'a-secret-of-the-test' }

export async function startOidcIssuer(): Promise<OidcIssuer> {
  // The package has no types of its own.
  const { default: Provider } = (await import('oidc-provider' as string)) as {
    default: new (
      issuer: string,
      options: object,
    ) => { callback(): Callback; on(event: string, listener: () => void): void }
  }
  let handle: Callback = (_, response) => void response.writeHead(503).end()
  let keyReads = 0
  const server: Server = createServer((request, response) => {
    if (request.url === '/jwks') keyReads++
    handle(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let current: { readonly key: CryptoKey; readonly kid: string } | null = null
  let count = 0
  const rotate = async (): Promise<void> => {
    const { privateKey } = await generateKeyPair('RS256', { extractable: true })
    const kid = `key-${++count}`
    current = { key: privateKey, kid }
    const jwk = { ...(await exportJWK(privateKey)), kid, use: 'sig', alg: 'RS256' }
    const resource = (_: unknown, audience: string): object => ({
      scope: 'infer',
      audience: audience.replace('urn:', ''),
      accessTokenFormat: 'jwt',
      accessTokenTTL: 600,
      jwt: { sign: { alg: 'RS256' } },
    })
    const provider = new Provider(url, {
      jwks: { keys: [jwk] },
      clients: [{ ...client, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }],
      cookies: { keys: ['only for the test'] },
      extraTokenClaims: () => ({ groups: ['ml-leads'], org: 'acme' }),
      features: {
        clientCredentials: { enabled: true },
        devInteractions: { enabled: false },
        resourceIndicators: { enabled: true, getResourceServerInfo: resource, defaultResource: () => 'urn:galatea' },
      },
    })
    handle = provider.callback()
  }
  await rotate()
  return {
    url,
    jwks: `${url}/jwks`,
    token: async (audience = 'galatea') => {
      const answer = await fetch(`${url}/token`, {
        method: 'POST',
        headers: {
          authorization: `Basic ${Buffer.from(`${client.client_id}:${client.client_secret}`).toString('base64')}`,
        },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource: `urn:${audience}` }),
      })
      const { access_token: token } = (await answer.json()) as { readonly access_token?: string }
      if (token === undefined) throw new Error(`the issuer gave no token: ${answer.status}`)
      return token
    },
    sign: (claims, header = {}) => {
      const { key, kid } = current as { readonly key: CryptoKey; readonly kid: string }
      return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid, ...header }).sign(key)
    },
    rotate,
    get keyReads() {
      return keyReads
    },
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

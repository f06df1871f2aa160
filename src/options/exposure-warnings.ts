// What an operator should know before the ports open: which doors other machines can walk through.

import { apiNames } from '../access/api-name.ts'
import { isLoopbackName } from '../base/local-address.ts'
import type { ServerOptions } from './server-options.ts'

type Door = {
  readonly protocol: 'http' | 'grpc' | 'sagemaker'
  readonly address: string
  readonly restricted: ReadonlySet<string>
  /** Clients show a certificate, so the port is not open to everybody. */
  readonly isMutual: boolean
}

const restrictingFlag = {
  http: '--http-restricted-api',
  grpc: '--grpc-restricted-protocol',
  sagemaker: '--http-restricted-api',
} as const
const nameOf = { http: 'HTTP', grpc: 'gRPC', sagemaker: 'SageMaker' } as const

/** One sentence each, with the flags that close the door. Secrets are not repeated. */
export function exposureWarnings(options: ServerOptions): string[] {
  const doors = doorsOf(options)
  return [...openRepository(options, doors), ...unevenRestrictions(doors)]
}

function doorsOf({ http, grpc, sagemaker, sharedHttp }: ServerOptions): Door[] {
  const door = (
    protocol: Door['protocol'],
    { address, tls }: Pick<NonNullable<ServerOptions['http']>, 'address' | 'tls'>,
    groups: readonly { readonly apis: readonly string[] }[],
  ): Door => ({
    protocol,
    address,
    restricted: new Set(groups.flatMap(({ apis }) => apis)),
    isMutual: tls?.isMutual === true,
  })
  return [
    ...(http === null ? [] : [door('http', http, http.restrictedApis)]),
    ...(grpc === null ? [] : [door('grpc', grpc, grpc.restrictedProtocols)]),
    ...(sagemaker === null
      ? []
      : [door('sagemaker', { address: sagemaker.address, tls: sharedHttp.tls }, sharedHttp.restrictedApis)]),
  ]
}

/** Whoever loads models decides which code runs. */
function openRepository({ engine, process }: ServerOptions, doors: readonly Door[]): string[] {
  // With --access-config the roles in the file decide who loads.
  if (engine.modelControlMode !== 'explicit' || process.accessConfigFile !== '') return []
  const open = doors.filter(
    ({ address, restricted, isMutual }) => !isLoopbackName(address) && !restricted.has('model-repository') && !isMutual,
  )
  if (open.length === 0) return []
  const where = open.map(({ protocol, address }) => `${nameOf[protocol]} at ${address}`).join(' and ')
  const power = engine.allowsModelUploads
    ? 'load and unload models, and run any code here by uploading a model (--allow-model-uploads)'
    : 'load and unload models and change their configurations'
  const flags = [...new Set(open.map(({ protocol }) => restrictingFlag[protocol]))]
  const restrict = flags.map((flag) => `${flag}=model-repository:KEY=SECRET`).join(' ')
  const bind = open.map(({ protocol }) => `--${protocol}-address=127.0.0.1`).join(' ')
  const uploads = engine.allowsModelUploads ? ', and --allow-model-uploads=false' : ''
  return [`everybody who reaches ${where} can ${power}. To close it: ${restrict}, or ${bind}${uploads}`]
}

/** A part of the API that one protocol guards with a secret and the other does not is open. */
function unevenRestrictions(doors: readonly Door[]): string[] {
  return doors.flatMap((door) =>
    doors
      .filter((other) => other !== door)
      .flatMap((other) => {
        const open = apiNames.filter((api) => door.restricted.has(api) && !other.restricted.has(api))
        if (open.length === 0) return []
        const [guarded, unguarded] = [nameOf[door.protocol], nameOf[other.protocol]]
        return [
          `${open.join(', ')}: restricted over ${guarded}, but open to everybody over ${unguarded}. ` +
            `To close it: ${restrictingFlag[other.protocol]}=${open.join(',')}:KEY=SECRET, or --allow-${other.protocol}=false`,
        ]
      }),
  )
}

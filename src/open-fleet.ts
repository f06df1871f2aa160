// `galatea fleet` put together: what asks the servers, what tells Envoy, the picker, and the ports of all that.

import type { Cancel, Clock } from './base/clock.ts'
import type { Log } from './base/log.ts'
import { messageOf, ServerError } from './base/server-error.ts'
import { AdsService } from './fleet/ads-service.ts'
import { askOverHttp } from './fleet/ask-member.ts'
import { EndpointPicker } from './fleet/endpoint-picker.ts'
import { mapFleet } from './fleet/fleet-map.ts'
import type { FleetOptions } from './fleet/fleet-options.ts'
import { fleetReport } from './fleet/fleet-report.ts'
import { FleetWatch, type FleetChange } from './fleet/fleet-watch.ts'
import { memberSource } from './fleet/member-source.ts'
import { pickerService } from './fleet/picker-service.ts'
import { resourcesByZone } from './fleet/resources-by-zone.ts'
import { ZonePreference } from './fleet/zone-preference.ts'
import { consolePath, consoleRoutes } from './frontends/console/console-routes.ts'
import { defaultOptions } from './options/options-from-flags.ts'
import { GrpcPort } from './ports/grpc/grpc-port.ts'
import { emptyResponse, jsonResponse } from './ports/http/error-response.ts'
import { HttpPort } from './ports/http/http-port.ts'
import { get, type Route } from './ports/http/route.ts'

const askTimeoutMs = 2000
const tellNs = 20e6

type RunningFleet = {
  readonly xdsAddress: { readonly address: string; readonly port: number }
  readonly httpAddress: { readonly address: string; readonly port: number }
  close(): Promise<void>
}

export async function openFleet(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  options: FleetOptions,
): Promise<RunningFleet> {
  const zones = new ZonePreference()
  const picker = new EndpointPicker(zones)
  const ask = askOverHttp(askTimeoutMs, options.headers)
  const members = memberSource(clock, options)
  const tell = (what: FleetChange): void => {
    const states = watch.states()
    const map = mapFleet(states)
    const nowNs = clock.nowNs()
    picker.update(map, states, nowNs)
    const haveZonesChanged = zones.update(map, states, nowNs)
    if (isStarted && (what === 'servers' || haveZonesChanged))
      ads.publish(resourcesByZone(map, watch.sequenceModels(), options.envoy, zones))
  }
  let isStarted = false
  let untold: { what: FleetChange; readonly cancel: Cancel } | null = null
  // Each server answers once a second. What many of them say is told at once.
  const changed = (what: FleetChange): void => {
    untold ??= {
      what,
      cancel: clock.after(tellNs, () => {
        const told = untold?.what ?? what
        untold = null
        tell(told)
      }),
    }
    if (what === 'servers') untold.what = what
  }
  const watch = new FleetWatch({ clock, log, ask, members }, options.mostMembers, changed)
  const ads = new AdsService({ log, clock }, () => new Map())
  await watch.start()
  isStarted = true
  tell('servers')
  const { grpc, http } = defaultOptions()
  const { address } = options
  const dependencies = { clock, log, admission: null }
  const xds = new GrpcPort(dependencies, { ...grpc, address, port: options.xdsPort }, [
    ads,
    pickerService(picker, clock),
  ])
  const cannotListen = (cause: Error): ServerError =>
    new ServerError('INTERNAL', `cannot listen on ${address}:${options.httpPort}: ${messageOf(cause)}`, { cause })
  const report = (): object => fleetReport(watch.states(), mapFleet(watch.states()), picker, ads.envoys())
  const page = new HttpPort(
    { ...dependencies, cannotListen },
    { ...http, address, port: options.httpPort, bodyLimitBytes: 64 * 1024, protocol: 'http', hasFlags: false, homePath: consolePath, allowedHosts: options.allowedHosts }, // prettier-ignore
    fleetRoutes(report),
  )
  const [xdsAddress, httpAddress] = [await xds.listen(), await page.listen()]
  const close = async (): Promise<void> => {
    watch.close()
    untold?.cancel()
    await Promise.all([xds.close(), page.close()])
  }
  return { xdsAddress, httpAddress, close }
}

const fleetRoutes = (report: () => object): Route[] => [
  ...consoleRoutes({ hasConsole: true }, 'fleet'),
  get('/v2/fleet', 'metadata', (request) => request.respond(jsonResponse(Buffer.from(JSON.stringify(report()))))),
  get('/v2/health/live', 'health', (request) => request.respond(emptyResponse(200))),
  get('/v2/health/ready', 'health', (request) => request.respond(emptyResponse(200))),
]

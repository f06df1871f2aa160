// The fleet as JSON, for people and for the console.

import type { EnvoyView } from './ads-service.ts'
import type { EndpointPicker } from './endpoint-picker.ts'
import type { FleetMap, MemberState } from './fleet-map.ts'

export function fleetReport(
  states: readonly MemberState[],
  map: FleetMap,
  picker: EndpointPicker,
  envoys: readonly EnvoyView[],
): object {
  const serving = new Set(map.serving.map(({ key }) => key))
  return {
    servers: states.map(({ member, health, sinceMs, reason, pressure, models }) => {
      const { inFlight, latencyMs } = picker.loadOf(member.key)
      return {
        url: `http://${member.key}`,
        grpc_port: member.grpcPort,
        zone: member.zone,
        state: health,
        serving: serving.has(member.key),
        since: new Date(sinceMs).toISOString(),
        reason,
        pressure,
        picked_in_flight: inFlight,
        picked_latency_ms: Math.round(latencyMs * 1000) / 1000,
        models: [...models].map(([name, versions]) => ({ name, versions })),
      }
    }),
    models: [...map.models.values()].map(({ name, members, versions, differs }) => ({
      name,
      differs: differs || members.length !== map.serving.length,
      servers: members.length,
      versions: [...versions].map(([version, holders]) => ({
        version,
        servers: holders.map(({ key }) => `http://${key}`),
      })),
    })),
    picks: picker.picks,
    envoys: envoys.map(({ node, zone, address, sinceMs, problem }) => ({
      node,
      zone,
      address,
      since: new Date(sinceMs).toISOString(),
      problem,
    })),
  }
}

import type { ResourcesForZone } from './ads-service.ts'
import type { FleetMap } from './fleet-map.ts'
import { xdsResources, type EnvoySettings, type XdsResources } from './xds-resources.ts'
import type { ZonePreference } from './zone-preference.ts'

/** Made once for each zone with servers. Envoys may name any zone: what they are told of others is the same for all of them. */
export function resourcesByZone(
  map: FleetMap,
  sequenceModels: ReadonlySet<string>,
  settings: EnvoySettings,
  zones: ZonePreference,
): ResourcesForZone {
  const elsewhere = xdsResources(map, sequenceModels, settings)
  const made = new Map<string, XdsResources | null>(map.serving.map(({ zone }) => [zone, null]))
  made.set('', elsewhere)
  return (zone) => {
    if (!made.has(zone)) return elsewhere
    const isPreferred = (model: string): boolean => zones.isPreferred(zone, model)
    const resources = made.get(zone) ?? xdsResources(map, sequenceModels, settings, { zone, isPreferred })
    made.set(zone, resources)
    return resources
  }
}

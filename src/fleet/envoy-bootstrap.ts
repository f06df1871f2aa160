// The configuration with which Envoy is started: where its control plane is. All else comes from there.

import { isEveryAddress } from '../base/host-and-port.ts'
import { controlCluster, type FleetOptions } from './fleet-options.ts'

/** Envoy reads JSON as it reads YAML. */
export function envoyBootstrap({ address, xdsPort, zone }: FleetOptions): string {
  const reachable = isEveryAddress(address) ? '127.0.0.1' : address
  const service = { envoy_grpc: { cluster_name: controlCluster } }
  const overAds = { ads: {}, resource_api_version: 'V3' }
  return `${JSON.stringify(
    {
      node: { id: 'envoy', cluster: 'galatea', ...(zone === '' ? {} : { locality: { zone } }) },
      dynamic_resources: {
        ads_config: { api_type: 'GRPC', transport_api_version: 'V3', grpc_services: [service] },
        cds_config: overAds,
        lds_config: overAds,
      },
      static_resources: {
        clusters: [
          {
            name: controlCluster,
            type: 'STRICT_DNS',
            connect_timeout: '1s',
            typed_extension_protocol_options: {
              'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
                '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
                explicit_http_config: { http2_protocol_options: {} },
              },
            },
            load_assignment: {
              cluster_name: controlCluster,
              endpoints: [
                {
                  lb_endpoints: [
                    { endpoint: { address: { socket_address: { address: reachable, port_value: xdsPort } } } },
                  ],
                },
              ],
            },
          },
        ],
      },
    },
    null,
    2,
  )}\n`
}

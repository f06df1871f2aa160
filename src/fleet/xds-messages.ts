// The messages of Envoy's API that a fleet reads and writes, as rows of its .proto files, as far as they are used here. A test
// compares the rows with the .proto files. https://github.com/envoyproxy/envoy/tree/main/api

import { schemaFinder, type EnumRows, type MessageRows } from '../protobuf/message-schema.ts'

const discovery: MessageRows = {
  'envoy.service.discovery.v3.DiscoveryRequest': [
    'string version_info = 1',
    'envoy.config.core.v3.Node node = 2',
    'repeated string resource_names = 3',
    'string type_url = 4',
    'string response_nonce = 5',
    'google.rpc.Status error_detail = 6',
  ],
  'envoy.service.discovery.v3.DiscoveryResponse': [
    'string version_info = 1',
    'repeated google.protobuf.Any resources = 2',
    'string type_url = 4',
    'string nonce = 5',
  ],
  'envoy.service.discovery.v3.DeltaDiscoveryRequest': [
    'envoy.config.core.v3.Node node = 1',
    'string type_url = 2',
    'repeated string resource_names_subscribe = 3',
    'repeated string resource_names_unsubscribe = 4',
    'map<string, string> initial_resource_versions = 5',
    'string response_nonce = 6',
    'google.rpc.Status error_detail = 7',
  ],
  'envoy.service.discovery.v3.DeltaDiscoveryResponse': [
    'string system_version_info = 1',
    'repeated envoy.service.discovery.v3.Resource resources = 2',
    'string type_url = 4',
    'string nonce = 5',
    'repeated string removed_resources = 6',
  ],
  'envoy.service.discovery.v3.Resource': ['string version = 1', 'google.protobuf.Any resource = 2', 'string name = 3'],
  'envoy.config.core.v3.Node': ['string id = 1', 'string cluster = 2', 'envoy.config.core.v3.Locality locality = 4'],
  'envoy.config.core.v3.Locality': ['string zone = 2'],
}

const google: MessageRows = {
  'google.rpc.Status': ['int32 code = 1', 'string message = 2'],
  'google.protobuf.Any': ['string type_url = 1', 'bytes value = 2'],
  'google.protobuf.Duration': ['int64 seconds = 1', 'int32 nanos = 2'],
  'google.protobuf.UInt32Value': ['uint32 value = 1'],
  'google.protobuf.UInt64Value': ['uint64 value = 1'],
  'google.protobuf.BoolValue': ['bool value = 1'],
  'google.protobuf.Struct': ['map<string, google.protobuf.Value> fields = 1'],
  'google.protobuf.Value': ['oneof kind string string_value = 3', 'oneof kind google.protobuf.Struct struct_value = 5'],
}

const core: MessageRows = {
  'envoy.config.core.v3.Address': ['oneof address envoy.config.core.v3.SocketAddress socket_address = 1'],
  'envoy.config.core.v3.SocketAddress': ['string address = 2', 'oneof port_specifier uint32 port_value = 3'],
  'envoy.config.core.v3.AggregatedConfigSource': [],
  'envoy.config.core.v3.ConfigSource': [
    'oneof config_source_specifier envoy.config.core.v3.AggregatedConfigSource ads = 3',
    'google.protobuf.Duration initial_fetch_timeout = 4',
    'envoy.config.core.v3.ApiVersion resource_api_version = 6',
  ],
  'envoy.config.core.v3.GrpcService': [
    'oneof target_specifier envoy.config.core.v3.GrpcService.EnvoyGrpc envoy_grpc = 1',
    'google.protobuf.Duration timeout = 3',
    'repeated envoy.config.core.v3.HeaderValue initial_metadata = 5',
  ],
  'envoy.config.core.v3.GrpcService.EnvoyGrpc': ['string cluster_name = 1'],
  'envoy.config.core.v3.TypedExtensionConfig': ['string name = 1', 'google.protobuf.Any typed_config = 2'],
  'envoy.config.core.v3.HeaderValue': ['string key = 1', 'string value = 2', 'bytes raw_value = 3'],
  'envoy.config.core.v3.HeaderMap': ['repeated envoy.config.core.v3.HeaderValue headers = 1'],
  'envoy.config.core.v3.HeaderValueOption': [
    'envoy.config.core.v3.HeaderValue header = 1',
    'envoy.config.core.v3.HeaderValueOption.HeaderAppendAction append_action = 3',
  ],
  'envoy.config.core.v3.Http2ProtocolOptions': ['envoy.config.core.v3.KeepaliveSettings connection_keepalive = 15'],
  'envoy.config.core.v3.KeepaliveSettings': [
    'google.protobuf.Duration interval = 1',
    'google.protobuf.Duration timeout = 2',
  ],
  'envoy.config.core.v3.HealthCheck': [
    'google.protobuf.Duration timeout = 1',
    'google.protobuf.Duration interval = 2',
    'google.protobuf.UInt32Value unhealthy_threshold = 4',
    'google.protobuf.UInt32Value healthy_threshold = 5',
    'oneof health_checker envoy.config.core.v3.HealthCheck.HttpHealthCheck http_health_check = 8',
    'google.protobuf.Duration no_traffic_interval = 12',
  ],
  'envoy.config.core.v3.HealthCheck.HttpHealthCheck': ['string host = 1', 'string path = 2'],
}

const clusters: MessageRows = {
  'envoy.config.cluster.v3.Cluster': [
    'string name = 1',
    'oneof cluster_discovery_type envoy.config.cluster.v3.Cluster.DiscoveryType type = 2',
    'envoy.config.cluster.v3.Cluster.EdsClusterConfig eds_cluster_config = 3',
    'google.protobuf.Duration connect_timeout = 4',
    'repeated envoy.config.core.v3.HealthCheck health_checks = 8',
    'envoy.config.cluster.v3.CircuitBreakers circuit_breakers = 10',
    'envoy.config.cluster.v3.OutlierDetection outlier_detection = 19',
    'envoy.config.cluster.v3.Cluster.CommonLbConfig common_lb_config = 27',
    'bool ignore_health_on_host_removal = 32',
    'map<string, google.protobuf.Any> typed_extension_protocol_options = 36',
    'envoy.config.cluster.v3.LoadBalancingPolicy load_balancing_policy = 41',
  ],
  'envoy.config.cluster.v3.Cluster.CommonLbConfig': ['envoy.type.v3.Percent healthy_panic_threshold = 1'],
  'envoy.config.cluster.v3.Cluster.EdsClusterConfig': ['envoy.config.core.v3.ConfigSource eds_config = 1'],
  'envoy.config.cluster.v3.CircuitBreakers': [
    'repeated envoy.config.cluster.v3.CircuitBreakers.Thresholds thresholds = 1',
  ],
  'envoy.config.cluster.v3.CircuitBreakers.Thresholds': [
    'google.protobuf.UInt32Value max_connections = 2',
    'google.protobuf.UInt32Value max_pending_requests = 3',
    'google.protobuf.UInt32Value max_requests = 4',
    'envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget retry_budget = 8',
  ],
  'envoy.config.cluster.v3.CircuitBreakers.Thresholds.RetryBudget': [
    'envoy.type.v3.Percent budget_percent = 1',
    'google.protobuf.UInt32Value min_retry_concurrency = 2',
  ],
  'envoy.type.v3.Percent': ['double value = 1'],
  'envoy.config.cluster.v3.OutlierDetection': [
    'google.protobuf.UInt32Value consecutive_5xx = 1',
    'google.protobuf.Duration interval = 2',
    'google.protobuf.Duration base_ejection_time = 3',
    'google.protobuf.UInt32Value max_ejection_percent = 4',
    'google.protobuf.UInt32Value enforcing_consecutive_5xx = 5',
    'google.protobuf.UInt32Value enforcing_success_rate = 6',
    'google.protobuf.UInt32Value consecutive_gateway_failure = 10',
    'google.protobuf.UInt32Value enforcing_consecutive_gateway_failure = 11',
  ],
  'envoy.config.cluster.v3.LoadBalancingPolicy': [
    'repeated envoy.config.cluster.v3.LoadBalancingPolicy.Policy policies = 1',
  ],
  'envoy.config.cluster.v3.LoadBalancingPolicy.Policy': [
    'envoy.config.core.v3.TypedExtensionConfig typed_extension_config = 4',
  ],
  'envoy.extensions.load_balancing_policies.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin': [
    'google.protobuf.Duration blackout_period = 3',
    'google.protobuf.Duration weight_expiration_period = 4',
    'google.protobuf.Duration weight_update_period = 5',
  ],
  'envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost': [
    'repeated envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost.OverrideHostSource override_host_sources = 1',
    'envoy.config.cluster.v3.LoadBalancingPolicy fallback_policy = 3',
  ],
  'envoy.extensions.load_balancing_policies.override_host.v3.OverrideHost.OverrideHostSource': [
    'envoy.type.metadata.v3.MetadataKey metadata = 2',
  ],
  'envoy.type.metadata.v3.MetadataKey': [
    'string key = 1',
    'repeated envoy.type.metadata.v3.MetadataKey.PathSegment path = 2',
  ],
  'envoy.type.metadata.v3.MetadataKey.PathSegment': ['oneof segment string key = 1'],
  'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': [
    'oneof upstream_protocol_options envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig explicit_http_config = 3',
  ],
  'envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig': [
    'oneof protocol_config envoy.config.core.v3.Http2ProtocolOptions http2_protocol_options = 2',
  ],
  'envoy.config.endpoint.v3.ClusterLoadAssignment': [
    'string cluster_name = 1',
    'repeated envoy.config.endpoint.v3.LocalityLbEndpoints endpoints = 2',
  ],
  'envoy.config.endpoint.v3.LocalityLbEndpoints': [
    'envoy.config.core.v3.Locality locality = 1',
    'repeated envoy.config.endpoint.v3.LbEndpoint lb_endpoints = 2',
    'uint32 priority = 5',
  ],
  'envoy.config.endpoint.v3.LbEndpoint': ['oneof host_identifier envoy.config.endpoint.v3.Endpoint endpoint = 1'],
  'envoy.config.endpoint.v3.Endpoint': [
    'envoy.config.core.v3.Address address = 1',
    'envoy.config.endpoint.v3.Endpoint.HealthCheckConfig health_check_config = 2',
  ],
  'envoy.config.endpoint.v3.Endpoint.HealthCheckConfig': ['uint32 port_value = 1'],
}

const manager = 'envoy.extensions.filters.network.http_connection_manager.v3'

const listeners: MessageRows = {
  'envoy.config.listener.v3.Listener': [
    'string name = 1',
    'envoy.config.core.v3.Address address = 2',
    'repeated envoy.config.listener.v3.FilterChain filter_chains = 3',
    'google.protobuf.UInt32Value per_connection_buffer_limit_bytes = 5',
  ],
  'envoy.config.listener.v3.FilterChain': ['repeated envoy.config.listener.v3.Filter filters = 3'],
  'envoy.config.listener.v3.Filter': ['string name = 1', 'oneof config_type google.protobuf.Any typed_config = 4'],
  [`${manager}.HttpConnectionManager`]: [
    `${manager}.HttpConnectionManager.CodecType codec_type = 1`,
    'string stat_prefix = 2',
    `oneof route_specifier ${manager}.Rds rds = 3`,
    `repeated ${manager}.HttpFilter http_filters = 5`,
    'google.protobuf.Duration stream_idle_timeout = 24',
    'google.protobuf.Duration request_headers_timeout = 41',
  ],
  [`${manager}.HttpFilter`]: ['string name = 1', 'oneof config_type google.protobuf.Any typed_config = 4'],
  [`${manager}.Rds`]: ['envoy.config.core.v3.ConfigSource config_source = 1', 'string route_config_name = 2'],
  'envoy.extensions.filters.http.router.v3.Router': [],
  'envoy.config.route.v3.RouteConfiguration': [
    'string name = 1',
    'repeated envoy.config.route.v3.VirtualHost virtual_hosts = 2',
    'google.protobuf.BoolValue validate_clusters = 7',
  ],
  'envoy.config.route.v3.VirtualHost': [
    'string name = 1',
    'repeated string domains = 2',
    'repeated envoy.config.route.v3.Route routes = 3',
    'google.protobuf.UInt64Value request_body_buffer_limit = 25',
  ],
  'envoy.config.route.v3.Route': [
    'envoy.config.route.v3.RouteMatch match = 1',
    'oneof action envoy.config.route.v3.RouteAction route = 2',
    'map<string, google.protobuf.Any> typed_per_filter_config = 13',
  ],
  'envoy.config.route.v3.RouteMatch': [
    'oneof path_specifier string prefix = 1',
    'oneof path_specifier string path = 2',
    'envoy.config.route.v3.RouteMatch.GrpcRouteMatchOptions grpc = 8',
    'oneof path_specifier string path_separated_prefix = 14',
  ],
  'envoy.config.route.v3.RouteMatch.GrpcRouteMatchOptions': [],
  'envoy.config.route.v3.RouteAction': [
    'oneof cluster_specifier string cluster = 1',
    'google.protobuf.Duration timeout = 8',
    'envoy.config.route.v3.RetryPolicy retry_policy = 9',
  ],
  'envoy.config.route.v3.RetryPolicy': [
    'string retry_on = 1',
    'google.protobuf.UInt32Value num_retries = 2',
    'envoy.config.route.v3.RetryPolicy.RetryPriority retry_priority = 4',
    'repeated envoy.config.route.v3.RetryPolicy.RetryHostPredicate retry_host_predicate = 5',
    'int64 host_selection_retry_max_attempts = 6',
    'repeated uint32 retriable_status_codes = 7',
    'envoy.config.route.v3.RetryPolicy.RetryBackOff retry_back_off = 8',
    'repeated envoy.config.route.v3.HeaderMatcher retriable_headers = 9',
  ],
  'envoy.config.route.v3.RetryPolicy.RetryHostPredicate': [
    'string name = 1',
    'oneof config_type google.protobuf.Any typed_config = 3',
  ],
  'envoy.config.route.v3.RetryPolicy.RetryPriority': [
    'string name = 1',
    'oneof config_type google.protobuf.Any typed_config = 3',
  ],
  'envoy.config.route.v3.RetryPolicy.RetryBackOff': [
    'google.protobuf.Duration base_interval = 1',
    'google.protobuf.Duration max_interval = 2',
  ],
  'envoy.config.route.v3.HeaderMatcher': [
    'string name = 1',
    'oneof header_match_specifier envoy.type.matcher.v3.StringMatcher string_match = 13',
  ],
  'envoy.type.matcher.v3.StringMatcher': ['oneof match_pattern string exact = 1'],
  'envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate': [],
  'envoy.extensions.retry.priority.previous_priorities.v3.PreviousPrioritiesConfig': ['int32 update_frequency = 1'],
}

const filter = 'envoy.extensions.filters.http.ext_proc.v3'
const service = 'envoy.service.ext_proc.v3'

const processing: MessageRows = {
  [`${filter}.ExternalProcessor`]: [
    'envoy.config.core.v3.GrpcService grpc_service = 1',
    'bool failure_mode_allow = 2',
    `${filter}.ProcessingMode processing_mode = 3`,
    'google.protobuf.Duration message_timeout = 7',
    `${filter}.MetadataOptions metadata_options = 16`,
    `${filter}.ExternalProcessor.RouteCacheAction route_cache_action = 18`,
  ],
  [`${filter}.MetadataOptions`]: [`${filter}.MetadataOptions.MetadataNamespaces receiving_namespaces = 2`],
  [`${filter}.MetadataOptions.MetadataNamespaces`]: ['repeated string untyped = 1'],
  [`${filter}.ProcessingMode`]: [
    `${filter}.ProcessingMode.HeaderSendMode request_header_mode = 1`,
    `${filter}.ProcessingMode.HeaderSendMode response_header_mode = 2`,
    `${filter}.ProcessingMode.BodySendMode request_body_mode = 3`,
    `${filter}.ProcessingMode.HeaderSendMode request_trailer_mode = 5`,
  ],
  [`${filter}.ExtProcPerRoute`]: [
    'oneof override bool disabled = 1',
    `oneof override ${filter}.ExtProcOverrides overrides = 2`,
  ],
  [`${filter}.ExtProcOverrides`]: [`${filter}.ProcessingMode processing_mode = 1`],
  [`${service}.ProcessingRequest`]: [
    `oneof request ${service}.HttpHeaders request_headers = 2`,
    `oneof request ${service}.HttpHeaders response_headers = 3`,
    `oneof request ${service}.HttpBody request_body = 4`,
    `oneof request ${service}.HttpBody response_body = 5`,
    `oneof request ${service}.HttpTrailers request_trailers = 6`,
    `oneof request ${service}.HttpTrailers response_trailers = 7`,
    `${service}.ProtocolConfiguration protocol_config = 11`,
  ],
  [`${service}.ProtocolConfiguration`]: [`${filter}.ProcessingMode.BodySendMode request_body_mode = 1`],
  [`${service}.HttpHeaders`]: ['envoy.config.core.v3.HeaderMap headers = 1', 'bool end_of_stream = 3'],
  [`${service}.HttpBody`]: ['bytes body = 1', 'bool end_of_stream = 2'],
  [`${service}.HttpTrailers`]: [],
  [`${service}.ProcessingResponse`]: [
    `oneof response ${service}.HeadersResponse request_headers = 1`,
    `oneof response ${service}.HeadersResponse response_headers = 2`,
    `oneof response ${service}.BodyResponse request_body = 3`,
    `oneof response ${service}.BodyResponse response_body = 4`,
    `oneof response ${service}.TrailersResponse request_trailers = 5`,
    `oneof response ${service}.TrailersResponse response_trailers = 6`,
    'google.protobuf.Struct dynamic_metadata = 8',
    'bool request_drain = 11',
  ],
  [`${service}.HeadersResponse`]: [`${service}.CommonResponse response = 1`],
  [`${service}.BodyResponse`]: [`${service}.CommonResponse response = 1`],
  [`${service}.TrailersResponse`]: [],
  [`${service}.CommonResponse`]: [
    `${service}.HeaderMutation header_mutation = 2`,
    `${service}.BodyMutation body_mutation = 3`,
  ],
  [`${service}.HeaderMutation`]: ['repeated envoy.config.core.v3.HeaderValueOption set_headers = 1'],
  [`${service}.BodyMutation`]: [`oneof mutation ${service}.StreamedBodyResponse streamed_response = 3`],
  [`${service}.StreamedBodyResponse`]: ['bytes body = 1', 'bool end_of_stream = 2'],
}

export const xdsMessages: MessageRows = { ...google, ...discovery, ...core, ...clusters, ...listeners, ...processing }

export const xdsEnums: EnumRows = {
  'envoy.config.core.v3.ApiVersion': { AUTO: 0, V2: 1, V3: 2 },
  'envoy.config.core.v3.HeaderValueOption.HeaderAppendAction': {
    APPEND_IF_EXISTS_OR_ADD: 0,
    ADD_IF_ABSENT: 1,
    OVERWRITE_IF_EXISTS_OR_ADD: 2,
  },
  'envoy.config.cluster.v3.Cluster.DiscoveryType': { STATIC: 0, STRICT_DNS: 1, LOGICAL_DNS: 2, EDS: 3 },
  [`${manager}.HttpConnectionManager.CodecType`]: { AUTO: 0, HTTP1: 1, HTTP2: 2 },
  [`${filter}.ExternalProcessor.RouteCacheAction`]: { DEFAULT: 0, CLEAR: 1, RETAIN: 2 },
  [`${filter}.ProcessingMode.HeaderSendMode`]: { DEFAULT: 0, SEND: 1, SKIP: 2 },
  [`${filter}.ProcessingMode.BodySendMode`]: {
    NONE: 0,
    STREAMED: 1,
    BUFFERED: 2,
    BUFFERED_PARTIAL: 3,
    FULL_DUPLEX_STREAMED: 4,
  },
}

export const xdsMessage = schemaFinder(xdsMessages, xdsEnums)

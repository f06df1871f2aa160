// How a choice of the picker is told, as the Inference Extension of the Gateway API has it: a header, and the same as metadata.

export const destinationKey = 'x-gateway-destination-endpoint'
export const destinationNamespace = 'envoy.lb'
/** How the picker hears in which zone the Envoy is that asks. */
export const zoneHeader = 'galatea-zone'

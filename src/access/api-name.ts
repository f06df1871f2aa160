/** The groups of calls that an operator can close with a secret, over every protocol. A model's readiness is `health`. */
export const apiNames = [
  'health',
  'metadata',
  'inference',
  'shared-memory',
  'model-config',
  'model-repository',
  'statistics',
  'trace',
  'logging',
] as const
export type ApiName = (typeof apiNames)[number]

/** The groups of calls that an operator can restrict with a secret, in every protocol. Model readiness: `health`. */
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
  'rollouts',
  'jobs',
  'alerts',
] as const
export type ApiName = (typeof apiNames)[number]

import { apiNames } from './api-name.ts'

/** What a permission of `--access-config` can name: the parts of the API, and what Triton does not have. */
export const actions = [...apiNames, 'access', 'metrics', 'console'] as const
export type Action = (typeof actions)[number]

/** Actions on the server as a whole: a permission that names models for one of them is a mistake. */
export const serverActions: ReadonlySet<Action> = new Set([
  'shared-memory',
  'logging',
  'rollouts',
  'jobs',
  'alerts',
  'access',
  'console',
])

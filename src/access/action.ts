import { apiNames } from './api-name.ts'

/** What a permission of `--access-config` can name: the parts of the API, and what Triton does not have. */
const actions = [...apiNames, 'rollouts', 'jobs', 'access', 'metrics', 'console'] as const
export type Action = (typeof actions)[number]

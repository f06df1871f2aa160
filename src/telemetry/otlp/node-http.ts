import { createRequire } from 'node:module'

/**
 * `node:http` without the WebSocket that hangs on it: an `import` looks at every export of the module, and that alone loads
 * all of undici: 2 MiB of an idle server, and a twelfth of the CPU of its start (bench/start.bench.ts).
 */
export const nodeHttp = createRequire(import.meta.url)('node:http') as typeof import('node:http')

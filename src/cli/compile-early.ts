import { setFlagsFromString } from 'node:v8'

/** V8's own figures are 400 and 3000 calls. */
const callsUntil = { quickCompiler: 100, bestCompiler: 200 }

/**
 * V8 counts how often a function is called before it compiles the function well. With V8's own counts, a server with few
 * requests runs poor code for its first ten thousands of requests, and each of them costs up to twice as much
 * (`npm run bench -- lone-request`). Call it after the start: code that only a start runs is not worth the work.
 */
export function compileEarly(): void {
  setFlagsFromString(`--invocation-count-for-maglev=${callsUntil.quickCompiler}`)
  setFlagsFromString(`--invocation-count-for-turbofan=${callsUntil.bestCompiler}`)
}

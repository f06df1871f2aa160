/// <reference types="node" preserve="true" />
// The public API of the package, and the only barrel.

export { createEngine } from './embedded-engine.ts'
export type { EmbeddedEngine, EmbeddedEngineOptions } from './embedded-engine.ts'
export type { InferOptions, InferResult, InputValues, OutputValues } from './embedded-exchange.ts'
export { ServerError, type ErrorCode } from './base/server-error.ts'
export { SystemClock, type Clock } from './base/clock.ts'
export { silentLog, type Log } from './base/log.ts'
export type { DataType } from './tensor/data-type.ts'

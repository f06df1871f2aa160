/** STARTING → READY → EXITING → CLOSED; a server that fails to start goes to EXITING too. */
export type EngineState = 'STARTING' | 'READY' | 'EXITING' | 'CLOSED'

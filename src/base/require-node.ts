import { ServerError } from './server-error.ts'

/** The oldest Node that has everything that the engine uses, Float16Array among it. */
const oldestMajor = 24

/** Throws on a Node that is too old to run models in the process of the caller. */
export function requireNode(version: string = process.versions.node): void {
  if (Number.parseInt(version, 10) >= oldestMajor) return
  throw new ServerError(
    'UNSUPPORTED',
    `createEngine needs Node ${oldestMajor} or newer, and this is Node ${version}. Start the program with a newer Node, or ` +
      `start a server ('npx galatea' brings a Node of its own) and call it with 'galatea/client', which runs on Node 20`,
  )
}

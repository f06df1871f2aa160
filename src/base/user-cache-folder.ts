import { homedir } from 'node:os'
import path from 'node:path'

/** For what is downloaded or made once on this machine. An empty variable counts as none, as the XDG specification says. */
export const userCacheFolder = (environment: NodeJS.ProcessEnv = process.env): string =>
  path.join(environment['XDG_CACHE_HOME'] || path.join(homedir(), '.cache'), 'galatea')

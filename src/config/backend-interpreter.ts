/** The Python of a backend: what was said of it, else what was said of all, else the one on the path. */
export const interpreterOf = (
  backendConfig: ReadonlyMap<string, ReadonlyMap<string, string>>,
  backend: string,
): string => backendConfig.get(backend)?.get('interpreter') ?? backendConfig.get('')?.get('interpreter') ?? 'python3'

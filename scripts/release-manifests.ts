// The package.json of each package of a release. The server's own is the one of this repository, without what only
// development needs; docs/internals/packages.md says why there are these packages.

export type Manifest = {
  readonly name: string
  readonly version: string
  readonly [field: string]: unknown
}

type Versions = Readonly<Record<string, string>>
export type RootManifest = Manifest & {
  readonly license: string
  readonly dependencies: Versions
  readonly optionalDependencies: Versions
  readonly devDependencies: Versions
}

/** What onnxruntime-node has a library for, by the names of `process.platform` and `process.arch`. */
export const onnxRuntimeSystems = ['darwin-arm64', 'linux-arm64', 'linux-x64', 'win32-arm64', 'win32-x64'] as const
export type System = (typeof onnxRuntimeSystems)[number]

/** The first major version of Node that the launcher takes (bin/galatea.js). */
export const requiredMajor = 26

/** Libraries for what most servers do not use: whoever wants one of these installs it, in a version that was tested. */
export const onRequest = [
  '@aws-sdk/client-s3',
  '@aws-sdk/credential-providers',
  '@azure/identity',
  '@azure/storage-blob',
  '@google-cloud/storage',
  '@redis/client',
  'jose',
  'sharp',
]

const isNode = ([name]: [string, string]): boolean => name.startsWith('node-')

/** Development's fields are left out; `ours` has the versions, or places, of the other packages of the release. */
export function serverManifest(root: RootManifest, ours: Versions): Manifest {
  const { scripts: _scripts, devDependencies, allowScripts: _allowScripts, optionalDependencies, ...rest } = root
  const others = Object.entries(optionalDependencies).filter((entry) => !isNode(entry))
  return {
    ...rest,
    optionalDependencies: { ...Object.fromEntries(others), ...ours },
    peerDependencies: Object.fromEntries(onRequest.map((name) => [name, `^${devDependencies[name]}`])),
    peerDependenciesMeta: Object.fromEntries(onRequest.map((name) => [name, { optional: true }])),
  }
}

/**
 * Brings Node for each system where the user's own is too old. npm leaves an optional package out when its `engines` do not
 * fit, and what only that package needs with it.
 */
export function nodeManifest({ license, optionalDependencies }: RootManifest): Manifest {
  const nodes = Object.entries(optionalDependencies).filter(isNode)
  const version = nodes[0]?.[1] ?? ''
  return {
    name: '@galatea/node',
    version,
    description: `Node ${version} for Galatea, where the Node that runs npm is older than ${requiredMajor}`,
    license,
    engines: { node: `<${requiredMajor}` },
    optionalDependencies: Object.fromEntries(nodes),
  }
}

/** onnxruntime-node for one system: the same files in the same places, and no install script. */
export function onnxRuntimeManifest(
  system: System,
  original: Manifest & { readonly dependencies: Versions },
): Manifest {
  const [os, cpu] = system.split('-')
  return {
    name: `@galatea/onnxruntime-${system}`,
    version: original.version,
    description: `ONNX Runtime ${original.version} for ${system}, out of the package onnxruntime-node`,
    license: 'MIT',
    repository: original['repository'],
    main: 'dist/index.js',
    types: 'dist/index.d.ts',
    os: [os],
    cpu: [cpu],
    dependencies: { 'onnxruntime-common': original.dependencies['onnxruntime-common'] ?? original.version },
  }
}

/** `.` needs web globals only, and so do its types; gRPC and shared memory need Node. */
export function clientManifest({ version, license }: RootManifest): Manifest {
  const entry = (name: string): object => ({ types: `./dist/client/${name}.d.ts`, default: `./dist/client/${name}.js` })
  return {
    name: '@galatea/client',
    version,
    description:
      'A typed client for Galatea and other servers of the Open Inference Protocol (KServe v2, NVIDIA Triton)',
    keywords: ['inference', 'triton', 'kserve', 'onnx', 'client'],
    license,
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20' },
    exports: { '.': entry('web'), './node': entry('node'), './package.json': './package.json' },
    files: ['dist'],
  }
}

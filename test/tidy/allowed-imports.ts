// Which rooms a room may import. docs/internals/architecture.md shows the same table.

/** From folder to folders. `server` stands for the files directly in src/, which join everything together. */
export const allowedImports: Readonly<Record<string, readonly string[]>> = {
  base: [],
  tensor: ['base'],
  protobuf: ['base'],
  config: ['protobuf', 'tensor', 'base'],
  'onnx-file': ['config', 'protobuf', 'tensor', 'base'],
  access: ['base'],
  model: ['access', 'config', 'tensor', 'base'],
  protocol: ['config', 'model', 'protobuf', 'tensor', 'base'],
  rollouts: ['model', 'tensor', 'base'],
  repository: ['config', 'model', 'tensor', 'base'],
  scheduling: ['config', 'model', 'tensor', 'base'],
  telemetry: ['config', 'model', 'protobuf', 'tensor', 'base'],
  backends: ['config', 'model', 'onnx-file', 'tensor', 'base'],
  engine: ['repository', 'scheduling', 'telemetry', 'config', 'model', 'tensor', 'base'],
  exchange: ['engine', 'access', 'model', 'base'],
  transport: ['base'],
  ports: ['exchange', 'transport', 'access', 'protocol', 'config', 'model', 'tensor', 'base'],
  frontends: ['ports', 'exchange', 'transport', 'access', 'engine', 'protocol', 'config', 'model', 'tensor', 'base'],
  perf: ['client', 'transport', 'protocol', 'tensor', 'base'],
  tune: ['perf', 'client', 'repository', 'base'],
  client: ['protocol', 'protobuf', 'tensor', 'base'],
  options: ['ports', 'telemetry', 'engine', 'protocol', 'access', 'base'],
  cli: ['options', 'server', 'perf', 'tune', 'repository', 'onnx-file', 'config', 'model', 'tensor', 'base'],
}

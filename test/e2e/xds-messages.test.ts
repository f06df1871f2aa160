// The tables of Envoy's messages in src/fleet against Envoy's own .proto files.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { xdsEnums, xdsMessage, xdsMessages } from '../../src/fleet/xds-messages.ts'
import { requireTool } from '../tool.ts'

/** Reads names of messages and enums, and prints their fields: number, type, whether repeated, oneof. */
const script = `
import glob, importlib, json, os, sys
import envoy, xds
for root in list(envoy.__path__) + list(xds.__path__):
    base = os.path.dirname(root)
    for part in ['envoy/service/discovery/v3', 'envoy/service/ext_proc/v3', 'envoy/config/cluster/v3', 'envoy/config/endpoint/v3', 'envoy/config/listener/v3',
                 'envoy/config/route/v3', 'envoy/config/core/v3', 'envoy/type/**', 'envoy/extensions/load_balancing_policies/*/v3', 'envoy/extensions/upstreams/http/v3',
                 'envoy/extensions/filters/http/ext_proc/v3', 'envoy/extensions/filters/http/router/v3', 'envoy/extensions/filters/network/http_connection_manager/v3',
                 'envoy/extensions/retry/host/previous_hosts/v3', 'envoy/extensions/retry/priority/previous_priorities/v3']:
        for file in glob.glob(os.path.join(base, part, '*_pb2.py'), recursive=True):
            importlib.import_module(os.path.relpath(file, base)[:-3].replace('/', '.'))
from google.protobuf import descriptor_pool, struct_pb2, any_pb2, duration_pb2, wrappers_pb2
from google.rpc import status_pb2
from google.protobuf.descriptor import FieldDescriptor as F
types = {v: k[5:].lower() for k, v in F.__dict__.items() if k.startswith('TYPE_')}
pool = descriptor_pool.Default()
names = json.load(sys.stdin)
def kind(f):
    return f.message_type.full_name if f.message_type else f.enum_type.full_name if f.enum_type else types[f.type]
def row(f):
    if f.message_type and f.message_type.GetOptions().map_entry:
        return ['map<%s, %s>' % (kind(f.message_type.fields_by_name['key']), kind(f.message_type.fields_by_name['value'])), f.number, '']
    return [('repeated ' if f.is_repeated else '') + kind(f), f.number, f.containing_oneof.name if f.containing_oneof else '']
messages = {n: {f.name: row(f) for f in pool.FindMessageTypeByName(n).fields} for n in names['messages']}
enums = {n: {v.name: v.number for v in pool.FindEnumTypeByName(n).values} for n in names['enums']}
print(json.dumps({'messages': messages, 'enums': enums}))
`

type Described = {
  readonly messages: Record<string, Record<string, readonly [type: string, number: number, oneof: string]>>
  readonly enums: Record<string, Record<string, number>>
}

test("every row is a field of Envoy's own message", async () => {
  const python = await requireTool('xds-protos')
  const input = JSON.stringify({ messages: Object.keys(xdsMessages), enums: Object.keys(xdsEnums) })
  const { stdout, stderr } = spawnSync(python, ['-c', script], { input, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  assert.ok(stdout !== '', stderr)
  const { messages, enums } = JSON.parse(stdout) as Described
  for (const name of Object.keys(xdsMessages)) {
    for (const { wireName, number, type, kind, keyType, oneof } of xdsMessage(name).fields) {
      const own = kind === 'map' ? `map<${keyType}, ${type}>` : `${kind === 'repeated' ? 'repeated ' : ''}${type}`
      assert.deepEqual([own, number, oneof ?? ''], messages[name]?.[wireName], `${name}.${wireName}`)
    }
  }
  for (const [name, numbers] of Object.entries(xdsEnums)) assert.partialDeepStrictEqual(enums[name], numbers, name)
})

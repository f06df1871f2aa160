import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exposureWarnings } from './exposure-warnings.ts'
import { Flags } from './flags.ts'
import { optionsFromFlags } from './options-from-flags.ts'

function warnings(...args: string[]): string[] {
  const given = new Map([['model-repository', ['/models']]])
  for (const arg of args) {
    const [name = '', ...value] = arg.split('=')
    given.set(name, [...(given.get(name) ?? []), value.join('=')])
  }
  return exposureWarnings(optionsFromFlags(new Flags(given), { environment: {}, version: '', examplesPath: '' }))
}

const explicit = 'model-control-mode=explicit'
const open = ['http-address=0.0.0.0', 'grpc-address=0.0.0.0']

test('explicit control that other machines reach warns with the flags that close it', () => {
  const [warning = '', ...more] = warnings(explicit, ...open)
  assert.deepEqual(more, [])
  assert.match(warning, /^everybody who reaches HTTP at 0\.0\.0\.0 and gRPC at 0\.0\.0\.0 can load and unload models/)
  assert.match(
    warning,
    /--http-restricted-api=model-repository:KEY=SECRET --grpc-restricted-protocol=model-repository:/,
  )
  assert.match(warning, /--http-address=127\.0\.0\.1 --grpc-address=127\.0\.0\.1/)
  assert.match(warnings(explicit, ...open, 'allow-model-uploads=true')[0] ?? '', /run any code/)
  assert.match(warnings(explicit, 'triton-defaults=true')[0] ?? '', /run any code/)
})

test('the flags that the warning names close it', () => {
  const restricted = ['http-restricted-api=model-repository:k=v', 'grpc-restricted-protocol=model-repository:k=v']
  assert.deepEqual(warnings(explicit, ...open, ...restricted), [])
  assert.deepEqual(warnings(explicit), [])
  assert.deepEqual(warnings(explicit, 'http-address=::1', 'grpc-address=localhost'), [])
  assert.deepEqual(warnings(...open), [])
  assert.match(warnings(explicit, 'http-address=10.0.0.1')[0] ?? '', /HTTP at 10\.0\.0\.1 can/)
  const mutual = ['http-use-ssl-mutual=true', 'http-server-cert=c', 'http-server-key=k', 'http-root-cert=r']
  assert.deepEqual(warnings(explicit, 'http-address=10.0.0.1', ...mutual), [])
})

test('an API that only one protocol restricts is named, and the secret is not', () => {
  const [warning = '', ...more] = warnings('http-restricted-api=inference,logging:admin=hush')
  assert.deepEqual(more, [])
  assert.match(warning, /^inference, logging: restricted over HTTP, but open to everybody over gRPC/)
  assert.match(warning, /--grpc-restricted-protocol=inference,logging:KEY=SECRET/)
  assert.doesNotMatch(warning, /hush/)
  assert.match(warnings('grpc-restricted-protocol=health:a=b')[0] ?? '', /over gRPC, but open to everybody over HTTP/)
  assert.deepEqual(warnings('http-restricted-api=health:a=b', 'grpc-restricted-protocol=health:a=b'), [])
  assert.deepEqual(warnings('http-restricted-api=health:a=b', 'allow-grpc=false'), [])
})

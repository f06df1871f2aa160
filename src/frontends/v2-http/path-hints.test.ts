import assert from 'node:assert/strict'
import test from 'node:test'
import { pathHint } from './path-hints.ts'

const withMetrics = { metricsPort: () => 8002 }

const cases: readonly [target: string, named: string][] = [
  ['/', '/v2/openapi.json'],
  ['', '/v2'],
  ['/docs', '/v2/openapi.json'],
  ['/swagger-ui', '/v2/openapi.json'],
  ['/v2/models', '/v2/repository/index'],
  ['/v2/models/?a=1', '/v2/repository/index'],
  ['/v1/models', '/v2/repository/index'],
  ['/metrics', 'port 8002'],
  ['/healthz', '/v2/health/ready'],
  ['/predict', '/v2/models/{model}/infer'],
  ['/v2/models/wine/predict', '/v2/models/{model}/infer'],
  ['/v1/models/wine:predict', '/v2/models/{model}/infer'],
  ['/v1/chat/completions', 'does not speak this protocol'],
  ['/v1/other', '--kserve-v1'],
  ['/nothing/like/it', '/v2/openapi.json'],
]
for (const [target, named] of cases) {
  test(`a client that asks for '${target}' is pointed to ${named}`, () => {
    const text = pathHint(target, withMetrics)
    assert.match(text, /^Not Found: /)
    assert.ok(text.includes(named), text)
  })
}

test('without a metrics port the hint says how to get one', () => {
  assert.match(pathHint('/metrics', { metricsPort: () => null }), /--allow-metrics=true/)
})

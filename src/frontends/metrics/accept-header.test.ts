import assert from 'node:assert/strict'
import test from 'node:test'
import { preferenceFor } from './accept-header.ts'

const types = ['text/plain', 'application/openmetrics-text']

test('the highest weight wins, and our own order where they are equal', () => {
  const prometheus =
    'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'
  assert.equal(preferenceFor(prometheus, types), 'application/openmetrics-text')
  assert.equal(preferenceFor('application/openmetrics-text;q=0.2, text/plain;q=0.3', types), 'text/plain')
  assert.equal(preferenceFor('br, gzip', ['gzip', 'br']), 'gzip')
  assert.equal(preferenceFor('Gzip;q=0.5, BR', ['gzip', 'br']), 'br')
})

test('what is not named, or has no weight, is not chosen', () => {
  for (const header of ['', '*/*', 'gzip;q=0', 'gzip; q=0.0', 'gzip;q=none', 'gzipped', ',,;;q=']) {
    assert.equal(preferenceFor(header, ['gzip', ...types]), null, header)
  }
})

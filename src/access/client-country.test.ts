import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallFacts } from './call-facts.ts'
import { parseProxies } from './caller-address.ts'
import { clientCountry } from './client-country.ts'

const facts = (peer: string, headers: Readonly<Record<string, string>> = {}): CallFacts => ({
  protocol: 'http',
  api: 'inference',
  path: '/',
  peer,
  header: (name) => headers[name] ?? null,
})

test('a header says it, where it has two letters', () => {
  const countryOf = clientCountry({ header: 'cf-ipcountry', lookUp: null, trusted: parseProxies('') })
  const codes = ['nz', 'NZL', 'T1', ''].map((value) => countryOf(facts('1.2.3.4', { 'cf-ipcountry': value })))
  assert.deepEqual(codes, ['NZ', '', '', ''])
  assert.equal(countryOf(facts('1.2.3.4')), '')
})

test('else the address does: X-Forwarded-For is believed from trusted proxies alone, and from the right', () => {
  const asked: string[] = []
  const lookUp = (address: string): string => {
    asked.push(address)
    return 'IE'
  }
  const countryOf = clientCountry({ header: '', lookUp, trusted: parseProxies('10.0.0.0/8, ::1,192.0.2.7') })
  const forwarded = (value: string): Readonly<Record<string, string>> => ({ 'x-forwarded-for': value })
  assert.equal(countryOf(facts('8.8.8.8', forwarded('1.1.1.1'))), 'IE')
  countryOf(facts('10.1.2.3', forwarded('9.9.9.9, 1.1.1.1, 192.0.2.7')))
  countryOf(facts('::ffff:10.1.2.3', forwarded('spoofed, [2001:db8::1]:443')))
  countryOf(facts('::1', forwarded('not an address')))
  countryOf(facts('10.1.2.3'))
  assert.deepEqual(asked, ['8.8.8.8', '1.1.1.1', '2001:db8::1', '::1', '10.1.2.3'])
})

test('a network that is none is named', () => {
  for (const wrong of ['10.0.0.0/33', 'x', '10.0.0.0/', '1.2.3/8']) {
    assert.throws(() => parseProxies(`127.0.0.1,${wrong}`), new RegExp(`'${wrong}' is not an address or a network`))
  }
})

import type { AdmissionFacts } from '../../src/access/admission-facts.ts'

/** The facts of a call over HTTP to the server's health, but for what is given. */
export const factsOf = (given: Partial<AdmissionFacts>): AdmissionFacts => ({
  protocol: 'http',
  api: 'health',
  action: 'health',
  path: '/v2/health/live',
  peer: '127.0.0.1',
  model: '',
  isForAll: false,
  isOfConsole: false,
  isForSelf: false,
  head: {},
  bodyBytes: 0,
  isStream: false,
  header: () => null,
  certificate: () => null,
  ...given,
})

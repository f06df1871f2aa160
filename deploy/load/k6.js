// k6 run deploy/load/k6.js            GALATEA_URL, RATE (requests a second), DURATION
import http from 'k6/http'
import { check } from 'k6'

const url = __ENV.GALATEA_URL || 'http://localhost:8000'

export const options = {
  scenarios: {
    // Requests come at this rate, however long answers take: so do real clients.
    steady: {
      executor: 'constant-arrival-rate',
      rate: Number(__ENV.RATE || 100),
      timeUnit: '1s',
      duration: __ENV.DURATION || '30s',
      preAllocatedVUs: 50,
    },
  },
  thresholds: { checks: ['rate==1'], http_req_failed: ['rate==0'] },
}

const data = Array.from({ length: 16 }, (_, i) => i)
const input = (name) => ({ name, shape: [1, 16], datatype: 'INT32', data })
const body = JSON.stringify({ inputs: [input('INPUT0'), input('INPUT1')] })

export default function () {
  const answer = http.post(`${url}/v2/models/simple/infer`, body, { headers: { 'Content-Type': 'application/json' } })
  check(answer, {
    'status is 200': ({ status }) => status === 200,
    'the sums are right': (one) => one.json('outputs.0.data.15') === 30,
  })
}

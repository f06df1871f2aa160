// Asks the service both ways and shows what each step took: npx node examples/customer-service/talk.ts [server]

// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const url = process.argv[2] ?? 'http://localhost:8000'
const client = createHttpClient({ url })
const texts = [
  'Where is my order 1003?',
  'I forgot my password',
  'Do you ship to Spain?',
  'My order is late',
  'Can I send a jacket back?',
  'Did order 4711 leave?',
]

for (const text of texts) {
  const ensemble = await client.infer('service', { TEXT: { data: [text], shape: [1, 1] } })
  const calls = await client.infer('service_bls', { TEXT: { data: [text], shape: [1] } })
  const [answer, same] = [ensemble, calls].map((result) => result.output('ANSWER').strings()[0])
  if (answer !== same) throw new Error(`the ensemble says '${answer}', the calls say '${same}'`)
  process.stdout.write(`${text}\n  ${ensemble.output('INTENT').strings()[0]}: ${answer}\n`)
}

type Duration = { readonly count: number; readonly ns: number }
type Statistics = { readonly inference_stats: { readonly success: Duration; readonly compute_infer: Duration } }

process.stdout.write('\nstep           asked   ms in all, mean   ms computing, mean\n')
for (const model of ['service', 'service_bls', 'intent', 'orders', 'questions', 'choose']) {
  const response = await fetch(`${url}/v2/models/${model}/stats`)
  const { model_stats: found } = (await response.json()) as { model_stats: Statistics[] }
  const { success, compute_infer: compute } = found[0]?.inference_stats ?? { success: zero(), compute_infer: zero() }
  const mean = ({ count, ns }: Duration): string => (ns / 1e6 / Math.max(count, 1)).toFixed(2)
  process.stdout.write(
    `${model.padEnd(12)} ${String(success.count).padStart(7)} ${mean(success).padStart(17)} ${mean(compute).padStart(20)}\n`,
  )
}

function zero(): Duration {
  return { count: 0, ns: 0 }
}

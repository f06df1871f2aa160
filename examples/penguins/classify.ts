// Asks which penguin it is. One of the rows has no sex and no bill: npx node examples/penguins/classify.ts [server]

// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const rows = [
  {
    bill_length_mm: 39.1,
    bill_depth_mm: 18.7,
    flipper_length_mm: 181,
    body_mass_g: 3750,
    island: 'Torgersen',
    sex: 'male',
  },
  {
    bill_length_mm: 49.9,
    bill_depth_mm: 16.1,
    flipper_length_mm: 213,
    body_mass_g: 5400,
    island: 'Biscoe',
    sex: 'male',
  },
  { bill_length_mm: NaN, bill_depth_mm: NaN, flipper_length_mm: 195, body_mass_g: 3700, island: 'Dream', sex: '' },
]
const numbers = ['bill_length_mm', 'bill_depth_mm', 'flipper_length_mm', 'body_mass_g'] as const
const texts = ['island', 'sex'] as const
const shape = [rows.length, 1]

const client = createHttpClient({ url: process.argv[2] ?? 'http://localhost:8000' })
const answer = await client.infer('penguins', {
  ...Object.fromEntries(numbers.map((name) => [name, { data: Float64Array.from(rows, (row) => row[name]), shape }])),
  ...Object.fromEntries(texts.map((name) => [name, { data: rows.map((row) => row[name]), shape }])),
})
const kinds = answer.output('label').strings()
const chances = [...answer.output('probabilities').data].map(Number)
const width = chances.length / rows.length
for (const [index, kind] of kinds.entries()) {
  const best = Math.max(...chances.slice(index * width, (index + 1) * width))
  process.stdout.write(`${kind} ${best.toFixed(2)}\n`)
}

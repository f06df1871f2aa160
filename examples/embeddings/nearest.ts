// Which of some questions is nearest to yours: npx node examples/embeddings/nearest.ts "I forgot my password" [server]

// In your own project: from 'galatea/client'
import { createHttpClient } from '../../src/client/node.ts'

const [question = 'I cannot log in any more', url = 'http://localhost:8000'] = process.argv.slice(2)
const known = [
  'How do I reset my password?',
  'When will my parcel arrive?',
  'How can I get my money back?',
  'Which countries do you ship to?',
  'Is there a discount for students?',
]

const client = createHttpClient({ url })
const answer = await client.infer('embed', { TEXT: { data: [question, ...known], shape: [known.length + 1, 1] } })
const numbers = answer.output('EMBEDDING').float32()
const width = numbers.length / (known.length + 1)
const row = (index: number): Float32Array => numbers.subarray(index * width, (index + 1) * width)
const asked = row(0)

// The rows have unit length: their product is the cosine of the angle between them.
const ranked = known
  .map((text, index) => ({
    text,
    likeness: row(index + 1).reduce((sum, value, i) => sum + value * (asked[i] ?? 0), 0),
  }))
  .toSorted((one, other) => other.likeness - one.likeness)
for (const { text, likeness } of ranked) process.stdout.write(`${likeness.toFixed(3)}  ${text}\n`)

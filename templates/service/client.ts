// Asks the service for the moods of texts: node client.ts "What a great day" "It is broken"

import { createHttpClient } from 'galatea/client'

const client = createHttpClient({ url: process.env['SERVICE_URL'] ?? 'http://localhost:8000' })
const texts = process.argv.length > 2 ? process.argv.slice(2) : ['What a great day', 'It is slow and broken']
const answer = await client.infer('mood', { TEXT: { data: texts, shape: [texts.length, 1] } })
const moods = answer.output('MOOD').strings()
for (const [index, text] of texts.entries()) process.stdout.write(`${moods[index]}: ${text}\n`)

// Draws docs/guide/figures/voice-activity.svg from a real run of examples/voice-activity:
// npx node bench/draw-voice-activity.ts

import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { speechOf } from '../examples/voice-activity/detect.ts'
import { soundOf, type Utterance } from '../examples/voice-activity/synthetic-speech.ts'
import { createHttpClient } from '../src/client/node.ts'
import { startServerProcess } from '../test/e2e/server-process.ts'
import { lineChart } from '../src/perf/svg-chart.ts'

const root = path.join(import.meta.dirname, '..')
const example = path.join(root, 'examples/voice-activity')
const talkers: readonly { readonly name: string; readonly utterances: readonly Utterance[] }[] = [
  {
    name: 'sequence 1',
    utterances: [
      { atSeconds: 0.5, seconds: 1, pitchHz: 120 },
      { atSeconds: 3.2, seconds: 0.9, pitchHz: 120 },
    ],
  },
  { name: 'sequence 2', utterances: [{ atSeconds: 1.8, seconds: 1.2, pitchHz: 200 }] },
]

const repository = mkdtempSync(path.join(tmpdir(), 'galatea-voice-'))
cpSync(path.join(example, 'models'), repository, { recursive: true })
execFileSync(process.execPath, [path.join(example, 'get-model.ts'), repository])
const server = await startServerProcess([`--model-repository=${repository}`])
const client = createHttpClient({ url: server.url })
const heard = await Promise.all(talkers.map(({ utterances }) => speechOf(client, soundOf(4.5, utterances))))
await server.stop()
rmSync(repository, { recursive: true })

const folder = path.join(root, 'docs/guide/figures')
mkdirSync(folder, { recursive: true })
const figure = lineChart({
  title: 'Two talkers, one model: probability of speech',
  x: { label: 'seconds' },
  y: { label: 'probability', min: 0, max: 1 },
  series: talkers.map(({ name }, index) => ({
    name,
    points: (heard[index] ?? []).map((probability, chunk) => [(chunk * 512) / 16_000, probability] as const),
  })),
  note: 'Silero VAD v5, 32 ms per request, both sequences at the same time: npx node bench/draw-voice-activity.ts',
})
writeFileSync(path.join(folder, 'voice-activity.svg'), figure)

// When does somebody speak? Sends a sound in chunks of 32 ms, as a microphone would, all of them in one sequence:
// npx node examples/voice-activity/detect.ts [sound.wav] [server]

import { readFileSync } from 'node:fs'
// In your own project: from 'galatea/client'
import { createHttpClient, type InferenceClient } from '../../src/client/node.ts'
import { soundOf } from './synthetic-speech.ts'
import { readWav } from './wav.ts'

export const chunkSamples = 512
const contextSamples = 64

/** Each chunk with the end of the one before it, as the model wants it. */
export function* chunksOf(sound: Float32Array): Generator<Float32Array> {
  for (let at = 0; at + chunkSamples <= sound.length; at += chunkSamples) {
    const chunk = new Float32Array(contextSamples + chunkSamples)
    const before = Math.min(at, contextSamples)
    chunk.set(sound.subarray(at - before, at + chunkSamples), contextSamples - before)
    yield chunk
  }
}

/** The probability of speech for each chunk. */
export async function speechOf(client: InferenceClient, sound: Float32Array): Promise<number[]> {
  const sequence = client.sequence('silero_vad')
  const chunks = [...chunksOf(sound)]
  const probabilities: number[] = []
  for (const [index, chunk] of chunks.entries()) {
    const inputs = { input: { data: chunk, shape: [1, chunk.length] }, sr: { data: [16_000n], shape: [1] } }
    const isLast = index === chunks.length - 1
    const answer = await (isLast ? sequence.end(inputs) : sequence.infer(inputs))
    probabilities.push(Number(answer.output('output').data[0]))
  }
  return probabilities
}

if (process.argv[1] === import.meta.filename) {
  const [, , file, url = 'localhost:8000'] = process.argv
  const made = [
    { atSeconds: 1, seconds: 1.5, pitchHz: 120 },
    { atSeconds: 3.5, seconds: 1, pitchHz: 200 },
  ]
  const sound = file === undefined ? soundOf(5, made) : readWav(readFileSync(file))
  const probabilities = await speechOf(createHttpClient({ url }), sound)
  const secondsOf = (chunk: number): string => `${((chunk * chunkSamples) / 16_000).toFixed(2)} s`
  for (const [chunk, probability] of probabilities.entries()) {
    const wasSpeech = (probabilities[chunk - 1] ?? 0) > 0.5
    if (probability > 0.5 !== wasSpeech)
      process.stdout.write(`${secondsOf(chunk)} ${wasSpeech ? 'silence' : 'speech'}\n`)
  }
}

// A stateful ONNX model as it is used: Silero VAD hears several talkers at once, a sequence each, and the server keeps
// what it remembers of them. The answers are those of a loop written by hand over the model.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import test from 'node:test'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { chunksOf, speechOf } from '../../examples/voice-activity/detect.ts'
import { soundOf, type Utterance } from '../../examples/voice-activity/synthetic-speech.ts'
import { readWav, writeWav } from '../../examples/voice-activity/wav.ts'
import { createHttpClient } from '../../src/client/node.ts'
import { temporaryRepository } from '../fixtures/temporary-repository.ts'
import { projectRoot, startServerProcess } from './server-process.ts'

const example = path.join(projectRoot, 'examples/voice-activity')

const talkers: readonly (readonly Utterance[])[] = [
  [{ atSeconds: 0.5, seconds: 1, pitchHz: 120 }],
  [{ atSeconds: 1.2, seconds: 0.8, pitchHz: 200 }],
  [
    { atSeconds: 0.1, seconds: 0.6, pitchHz: 95 },
    { atSeconds: 1.5, seconds: 0.5, pitchHz: 160 },
  ],
  [],
]

/** The model by itself, its state carried from chunk to chunk. */
async function byHand(model: string, sound: Float32Array): Promise<number[]> {
  const session = await InferenceSession.create(model)
  const sr = new Tensor('int64', BigInt64Array.of(16_000n), [])
  let state = new Tensor('float32', new Float32Array(256), [2, 1, 128])
  const probabilities: number[] = []
  for (const chunk of chunksOf(sound)) {
    const answer = await session.run({ input: new Tensor('float32', chunk, [1, chunk.length]), sr, state })
    probabilities.push(Number(answer['output']?.data[0]))
    state = answer['stateN'] as Tensor & typeof state
  }
  await session.release()
  return probabilities
}

test('several talkers at once are heard as if each had the model alone', async (context) => {
  const config = readFileSync(path.join(example, 'models/silero_vad/config.pbtxt'), 'utf8')
  const { root, remove } = await temporaryRepository({ 'silero_vad/config.pbtxt': config })
  execFileSync(process.execPath, [path.join(example, 'get-model.ts'), root])
  // As files, which is how sound comes: 16 bits per sample.
  const sounds: Float32Array[] = []
  for (const [index, utterances] of talkers.entries()) {
    const file = path.join(root, `talker-${index}.wav`)
    await writeFile(file, writeWav(soundOf(2.2, utterances)))
    sounds.push(readWav(readFileSync(file)))
  }
  const server = await startServerProcess([`--model-repository=${root}`])
  context.after(async () => {
    await server.stop()
    await remove()
  })
  const client = createHttpClient({ url: server.url })
  const heard = await Promise.all(sounds.map((sound) => speechOf(client, sound)))
  const model = path.join(root, 'silero_vad/1/model.onnx')
  for (const [index, sound] of sounds.entries()) {
    const expected = await byHand(model, sound)
    assert.deepEqual(heard[index], expected)
    // And it is no accident: it hears speech where there is some, and nowhere else.
    for (const [chunk, probability] of expected.entries()) {
      const atSeconds = (chunk * 512) / 16_000
      const isInside = (margin: number): boolean =>
        (talkers[index] ?? []).some(
          (utterance) =>
            atSeconds > utterance.atSeconds + margin && atSeconds < utterance.atSeconds + utterance.seconds - margin,
        )
      if (isInside(0.15)) assert.ok(probability > 0.5, `talker ${index} speaks at ${atSeconds} s: ${probability}`)
      if (!isInside(-0.25)) assert.ok(probability < 0.5, `talker ${index} is silent at ${atSeconds} s: ${probability}`)
    }
  }
})

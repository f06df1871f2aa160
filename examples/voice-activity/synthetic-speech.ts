// Sound that a voice detector takes for speech, made from nothing: pulses of a larynx through three moving resonances,
// which is what a vowel is. Equal arguments give equal sound.

export const sampleRate = 16_000

const vowels = [
  [730, 1090, 2440],
  [270, 2290, 3010],
  [300, 870, 2240],
  [530, 1840, 2480],
  [570, 840, 2410],
  [660, 1720, 2410],
] as const
const bandwidths = [80, 90, 120] as const
const gains = [1, 0.7, 0.4] as const

export type Utterance = { readonly atSeconds: number; readonly seconds: number; readonly pitchHz: number }

/** Silence of `seconds`, with the utterances in it. */
export function soundOf(seconds: number, utterances: readonly Utterance[]): Float32Array {
  const sound = new Float32Array(Math.round(seconds * sampleRate))
  for (const [index, { atSeconds, seconds: length, pitchHz }] of utterances.entries()) {
    sound.set(speech(Math.round(length * sampleRate), pitchHz, index + 3), Math.round(atSeconds * sampleRate))
  }
  return sound
}

function speech(sampleCount: number, pitchHz: number, seed: number): Float32Array {
  const random = randomFrom(seed)
  const resonators = bandwidths.map(() => [0, 0] as [number, number])
  const formants: number[] = [...vowels[0]]
  let target: readonly number[] = vowels[0]
  let phase = 0
  let [loudness, wantedLoudness, breath, wantedBreath, left] = [0, 0, 0, 0, 0]
  const sound = new Float32Array(sampleCount)
  for (let i = 0; i < sampleCount; i++) {
    if (left-- <= 0) {
      left = Math.floor((0.06 + random() * 0.12) * sampleRate)
      target = vowels[Math.floor(random() * vowels.length)] ?? vowels[0]
      const kind = random()
      wantedLoudness = kind < 0.2 ? 0.05 : 0.6 + 0.4 * random()
      wantedBreath = kind < 0.25 ? 0.25 : 0.01
    }
    loudness += (wantedLoudness - loudness) * 0.003
    breath += (wantedBreath - breath) * 0.004
    const time = i / sampleRate
    const melody = 1 + 0.15 * Math.sin(14.5 * time) + 0.05 * Math.sin(32 * time) - 0.1 * (time % 1.5)
    phase = (phase + (pitchHz * melody) / sampleRate) % 1
    const source = (pulse(phase) - 0.2) * loudness + (random() - 0.5) * 2 * breath
    let sum = 0
    for (const [k, resonator] of resonators.entries()) {
      formants[k] = (formants[k] ?? 0) + ((target[k] ?? 0) - (formants[k] ?? 0)) * 0.0015
      sum += resonate(resonator, source, formants[k] ?? 0, bandwidths[k] ?? 100) * (gains[k] ?? 1)
    }
    sound[i] = sum
  }
  const loudest = sound.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9)
  return sound.map((value) => (value / loudest) * 0.5)
}

/** Air through the vocal folds during one period: they open slowly and close fast. */
function pulse(phase: number): number {
  if (phase >= 0.6) return 0
  return Math.sin((Math.PI * phase) / 0.6) ** 2 * (phase < 0.4 ? 1 : 0.6 - (phase - 0.4) * 3)
}

function resonate(memory: [number, number], input: number, hertz: number, bandwidth: number): number {
  const radius = Math.exp((-Math.PI * bandwidth) / sampleRate)
  const turn = 2 * radius * Math.cos((2 * Math.PI * hertz) / sampleRate)
  const value = input * (1 - radius) + turn * memory[0] - radius * radius * memory[1]
  memory[1] = memory[0]
  memory[0] = value
  return value
}

function randomFrom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0
    return (state >>> 0) / 2 ** 32
  }
}

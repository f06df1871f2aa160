import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { piecesOf, usualStep, type WidgetProps } from './input-kinds.ts'
import { Microphone } from './media-capture.tsx'
import { messageOf } from './server-api.ts'

export const usualRate = 16_000
const [leastRate, highestRate] = [3000, 192_000]

/** A sound in one row, or in pieces where the model takes a few samples at a time and remembers the rest. */
export function SoundInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const size = slot.shape.at(-1) ?? -1
  const isInPieces = slot.isSequence && size > 0
  const [rate, setRate] = useState(slot.hint.rate ?? usualRate)
  const [step, setStep] = useState(usualStep(size))
  const [file, setFile] = useState<Blob | null>(null)
  const [note, setNote] = useState('')
  useEffect(() => {
    if (file === null) {
      onFilled({ problem: `choose or record a sound for ${slot.name}` })
      return
    }
    const numbers = (samples: Float32Array): number[] =>
      slot.dataType === 'INT16' ? Array.from(samples, (each) => Math.round(each * 32_767)) : [...samples]
    const read = async (): Promise<void> => {
      const samples = await monoSamples(await file.arrayBuffer(), rate)
      const length = `${(samples.length / rate).toFixed(2)} s, ${samples.length.toLocaleString('en')} samples`
      if (isInPieces) {
        const pieces = piecesOf(samples, size, step).map(numbers)
        setNote(`${length} in ${pieces.length} pieces of one sequence`)
        onFilled({ values: pieces[0] ?? [], pieces: { values: pieces, seconds: step / rate } })
        return
      }
      setNote(size > 0 ? `${length}, the first ${size} are sent` : length)
      onFilled({
        values: numbers(size > 0 ? (piecesOf(samples.subarray(0, size), size, size)[0] ?? samples) : samples),
      })
    }
    read().catch((reason: unknown) => {
      setNote('')
      onFilled({ problem: `the sound cannot be read: ${messageOf(reason)}` })
    })
  }, [file, rate, step])
  return (
    <div class="stack">
      <div class="inline">
        <input
          type="file"
          accept="audio/*"
          aria-label={`Sound for ${slot.name}`}
          onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)}
        />
        <Microphone onSound={setFile} />
      </div>
      <div class="inline">
        <NumberField name="samples/s" value={rate} least={leastRate} most={highestRate} onValue={setRate} />
        {isInPieces ? (
          <NumberField name="new samples in a piece" value={step} least={1} most={size} onValue={setStep} />
        ) : null}
      </div>
      <span class="soft" role="status">
        {note}
      </span>
    </div>
  )
}

const NumberField = ({
  name,
  value,
  least,
  most,
  onValue,
}: {
  readonly name: string
  readonly value: number
  readonly least: number
  readonly most: number
  readonly onValue: (value: number) => void
}): JSX.Element => (
  <label class="inline soft">
    {name}
    <input
      type="number"
      class="short"
      min={least}
      max={most}
      value={value}
      onChange={(event) =>
        onValue(Math.min(most, Math.max(least, Math.round(Number(event.currentTarget.value)) || least)))
      }
    />
  </label>
)

/** One channel at this rate. Throws where the browser cannot read the file. */
export async function monoSamples(file: ArrayBuffer, rate: number): Promise<Float32Array> {
  const decoded = await new OfflineAudioContext(1, 1, rate).decodeAudioData(file)
  const mixer = new OfflineAudioContext(1, Math.max(1, Math.ceil(decoded.duration * rate)), rate)
  const source = mixer.createBufferSource()
  source.buffer = decoded
  source.connect(mixer.destination)
  source.start()
  return (await mixer.startRendering()).getChannelData(0)
}

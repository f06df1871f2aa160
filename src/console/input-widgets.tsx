// One widget for each way to fill an input. Each hands over values when they change, or says why there are none.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { flattened, readNumbers, type Filling, type InputSlot, type PixelLayout } from './input-kinds.ts'
import { cellsOfInk, inkOf, plainScale, tensorOfPixels } from './pixels.ts'
import { messageOf } from './server-api.ts'

type Values = readonly (number | bigint | boolean | string | Uint8Array)[]

export type Filled =
  | { readonly values: Values; readonly shape?: readonly number[] }
  | { readonly bytes: Uint8Array }
  | { readonly problem: string }

type WidgetProps = { readonly slot: InputSlot; readonly onFilled: (filled: Filled) => void }

export const widgetOf: Readonly<Record<Filling, (props: WidgetProps) => JSX.Element>> = {
  drawing: DrawingPad,
  picture: PictureInput,
  sound: SoundInput,
  numbers: NumbersInput,
  text: TextInput,
  json: JsonInput,
  file: FileInput,
}

const elementsOf = ({ shape, isBatching }: InputSlot): number =>
  (isBatching ? shape.slice(1) : shape).reduce((product, size) => product * Math.max(1, size), 1)

const mostStartValues = 4096

function NumbersInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const count = Math.min(elementsOf(slot), mostStartValues)
  const fill = (make: (i: number) => number): string => Array.from({ length: count }, (_, i) => make(i)).join(', ')
  const isBool = slot.dataType === 'BOOL'
  const isReal = slot.dataType.startsWith('FP') || slot.dataType === 'BF16'
  const [text, setText] = useState(() => fill((i) => (isBool ? i % 2 : i % 16)))
  useEffect(() => {
    try {
      onFilled({ values: readNumbers(text, slot.dataType) })
    } catch (reason) {
      onFilled({ problem: messageOf(reason) })
    }
  }, [text])
  const random = (): number =>
    isBool ? Math.round(Math.random()) : isReal ? Number(Math.random().toFixed(3)) : Math.floor(Math.random() * 100)
  return (
    <div class="stack">
      <textarea
        aria-label={`Values of ${slot.name}`}
        rows={Math.min(6, 2 + Math.ceil(count / 24))}
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <div class="inline">
        <button type="button" class="quiet small" onClick={() => setText(fill(() => 0))}>
          Zeros
        </button>
        <button type="button" class="quiet small" onClick={() => setText(fill(() => 1))}>
          Ones
        </button>
        <button type="button" class="quiet small" onClick={() => setText(fill(random))}>
          Random
        </button>
      </div>
    </div>
  )
}

function TextInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const [text, setText] = useState('Hello')
  const wanted = elementsOf(slot)
  useEffect(() => {
    // One element for each line where the model wants several.
    onFilled({ values: wanted > 1 ? text.split('\n') : [text] })
  }, [text])
  return (
    <textarea
      aria-label={`Text of ${slot.name}`}
      rows={3}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  )
}

function JsonInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const [text, setText] = useState(slot.dataType === 'BYTES' ? '["Hello"]' : '[[0]]')
  useEffect(() => {
    try {
      const value: unknown = JSON.parse(text)
      const values = flattened(value) as Values
      const wide = slot.dataType === 'INT64' || slot.dataType === 'UINT64'
      onFilled({ values: wide ? values.map((each) => BigInt(each as number)) : values, shape: shapeOf(value) })
    } catch (reason) {
      onFilled({ problem: messageOf(reason) })
    }
  }, [text])
  return (
    <textarea
      aria-label={`JSON of ${slot.name}`}
      rows={4}
      spellcheck={false}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
    />
  )
}

const shapeOf = (value: unknown): number[] =>
  Array.isArray(value) ? [value.length, ...(value.length > 0 ? shapeOf(value[0]) : [])] : []

function FileInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const [name, setName] = useState('')
  useEffect(() => onFilled({ problem: `choose a file for ${slot.name}` }), [])
  const read = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return
    setName(`${file.name}, ${file.size.toLocaleString('en')} bytes`)
    const bytes = new Uint8Array(await file.arrayBuffer())
    onFilled(slot.dataType === 'BYTES' ? { values: [bytes] } : { bytes })
  }
  return (
    <div class="stack">
      <input
        type="file"
        aria-label={`File for ${slot.name}`}
        onChange={(event) => void read(event.currentTarget.files?.[0])}
      />
      <span class="soft">
        {name === ''
          ? slot.dataType === 'BYTES'
            ? 'The whole file is one element.'
            : 'Raw little-endian values.'
          : name}
      </span>
    </div>
  )
}

const padSide = 240

function DrawingPad({ slot, onFilled }: WidgetProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null)
  const last = useRef<{ x: number; y: number } | null>(null)
  const cells = slot.layout?.height ?? 8
  const [most, setMost] = useState(inkOf(cells, slot.dataType))
  const [hasInk, setInk] = useState(false)
  const pen = (): CanvasRenderingContext2D | null =>
    canvas.current?.getContext('2d', { willReadFrequently: true }) ?? null
  const publish = (): void => {
    const data = pen()?.getImageData(0, 0, padSide, padSide).data
    if (data === undefined) return
    const ink = Float32Array.from({ length: padSide * padSide }, (_, i) => (data[i * 4 + 3] ?? 0) / 255)
    onFilled({ values: cellsOfInk(ink, padSide, cells, most).map((value) => (slot.dataType.startsWith('FP') ? value : Math.round(value))) }) // prettier-ignore
  }
  useEffect(() => onFilled({ problem: `draw something for ${slot.name}` }), [])
  useEffect(() => {
    if (hasInk) publish()
  }, [most])
  const at = (event: PointerEvent): { x: number; y: number } => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect()
    return {
      x: ((event.clientX - box.left) / box.width) * padSide,
      y: ((event.clientY - box.top) / box.height) * padSide,
    }
  }
  const draw = (event: PointerEvent): void => {
    const brush = pen()
    if (last.current === null || brush === null) return
    const to = at(event)
    brush.lineWidth = 30
    brush.lineCap = 'round'
    brush.lineJoin = 'round'
    brush.strokeStyle = '#1d2433'
    brush.beginPath()
    brush.moveTo(last.current.x, last.current.y)
    brush.lineTo(to.x, to.y)
    brush.stroke()
    last.current = to
  }
  const clear = (): void => {
    pen()?.clearRect(0, 0, padSide, padSide)
    setInk(false)
    onFilled({ problem: `draw something for ${slot.name}` })
  }
  return (
    <div class="stack">
      <canvas
        ref={canvas}
        class="pad"
        width={padSide}
        height={padSide}
        role="img"
        aria-label={`Drawing pad for ${slot.name}. Values can be typed under "numbers" instead.`}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId)
          last.current = at(event)
          draw(event)
        }}
        onPointerMove={draw}
        onPointerUp={() => {
          last.current = null
          setInk(true)
          publish()
        }}
      />
      <div class="inline">
        <button type="button" class="quiet small" onClick={clear}>
          Clear
        </button>
        <label class="inline soft">
          ink is
          <input
            type="number"
            class="short"
            value={most}
            onInput={(event) => setMost(Number(event.currentTarget.value))}
          />
        </label>
        <span class="soft">
          {cells} × {cells} cells
        </span>
      </div>
    </div>
  )
}

function PictureInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const layout = slot.layout as PixelLayout
  const preview = useRef<HTMLCanvasElement>(null)
  const isWhole = !slot.dataType.startsWith('FP')
  const [scale, setScale] = useState(isWhole ? 1 : Number((1 / 255).toFixed(6)))
  const [isNormalised, setNormalised] = useState(false)
  const [picture, setPicture] = useState<ImageBitmap | null>(null)
  const [problem, setProblem] = useState('')
  useEffect(() => onFilled({ problem: `choose a picture for ${slot.name}` }), [])
  useEffect(() => {
    const canvas = preview.current
    const brush = canvas?.getContext('2d', { willReadFrequently: true })
    if (picture === null || canvas === null || brush === null || brush === undefined) return
    canvas.width = layout.width > 0 ? layout.width : picture.width
    canvas.height = layout.height > 0 ? layout.height : picture.height
    brush.drawImage(picture, 0, 0, canvas.width, canvas.height)
    const pixels = brush.getImageData(0, 0, canvas.width, canvas.height)
    const used = isNormalised
      ? { scale, mean: [0.485, 0.456, 0.406, 0], std: [0.229, 0.224, 0.225, 1] }
      : { ...plainScale, scale }
    const values = tensorOfPixels(pixels, layout, used)
    onFilled({
      values: isWhole ? values.map(Math.round) : values,
      shape: slot.shape.map((size, i) => openSize(size, i, slot, layout, canvas)),
    })
  }, [picture, scale, isNormalised])
  const read = async (file: File | undefined | null): Promise<void> => {
    if (file === undefined || file === null) return
    try {
      setPicture(await createImageBitmap(file))
      setProblem('')
    } catch {
      setProblem(`${file.name} is not a picture that this browser reads.`)
    }
  }
  const paste = (event: ClipboardEvent): void => void read(event.clipboardData?.files[0])
  return (
    <div class="stack" onPaste={paste}>
      <input
        type="file"
        accept="image/*"
        capture="environment"
        aria-label={`Picture for ${slot.name}`}
        onChange={(event) => void read(event.currentTarget.files?.[0])}
      />
      {problem === '' ? (
        <span class="soft">Choose one, take one, or paste one here.</span>
      ) : (
        <span class="problem">{problem}</span>
      )}
      <canvas
        ref={preview}
        class={picture === null ? 'hidden' : 'preview'}
        role="img"
        aria-label="The picture as the model gets it"
      />
      <div class="inline">
        <label class="inline soft">
          times
          <input
            type="number"
            step="any"
            class="short"
            value={scale}
            onInput={(event) => setScale(Number(event.currentTarget.value))}
          />
        </label>
        {layout.channels === 3 && !isWhole ? (
          <label class="inline soft">
            <input
              type="checkbox"
              checked={isNormalised}
              onChange={(event) => setNormalised(event.currentTarget.checked)}
            />
            ImageNet mean and deviation
          </label>
        ) : null}
        <span class="soft">
          {layout.order === 'CHW' ? 'channels first' : layout.channels === 1 ? 'grey' : 'channels last'}
        </span>
      </div>
    </div>
  )
}

/** The size of a dimension that the model leaves open. */
function openSize(size: number, i: number, slot: InputSlot, layout: PixelLayout, canvas: HTMLCanvasElement): number {
  if (size >= 0) return size
  if (i === 0 && slot.isBatching) return 1
  const fromEnd = slot.shape.length - 1 - i
  const widthAt = layout.order === 'HWC' ? 1 : 0
  if (fromEnd === widthAt) return canvas.width
  return fromEnd === widthAt + 1 ? canvas.height : 1
}

const soundRate = 16_000

function SoundInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const [rate, setRate] = useState(soundRate)
  const [note, setNote] = useState('')
  const [recorder, setRecorder] = useState<MediaRecorder | null>(null)
  useEffect(() => onFilled({ problem: `choose a sound for ${slot.name}` }), [])
  const read = async (file: Blob | undefined): Promise<void> => {
    if (file === undefined) return
    try {
      const samples = await monoSamples(await file.arrayBuffer(), rate)
      const fixed = slot.shape.at(-1) ?? -1
      const cut = fixed > 0 ? Float32Array.from({ length: fixed }, (_, i) => samples[i] ?? 0) : samples
      setNote(
        `${(samples.length / rate).toFixed(2)} s, ${samples.length.toLocaleString('en')} samples${fixed > 0 ? `, the first ${fixed} are sent` : ''}`,
      )
      onFilled({ values: slot.dataType === 'INT16' ? Array.from(cut, (each) => Math.round(each * 32767)) : [...cut] })
    } catch (reason) {
      onFilled({ problem: `the sound cannot be read: ${messageOf(reason)}` })
    }
  }
  const record = async (): Promise<void> => {
    if (recorder !== null) {
      recorder.stop()
      setRecorder(null)
      return
    }
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      const made = new MediaRecorder(stream)
      made.ondataavailable = ({ data }) => {
        for (const track of stream.getTracks()) track.stop()
        void read(data)
      }
      made.start()
      setRecorder(made)
    } catch (reason) {
      setNote(`no microphone: ${messageOf(reason)}`)
    }
  }
  return (
    <div class="stack">
      <div class="inline">
        <input
          type="file"
          accept="audio/*"
          aria-label={`Sound for ${slot.name}`}
          onChange={(event) => void read(event.currentTarget.files?.[0])}
        />
        <button type="button" class="quiet small" onClick={() => void record()}>
          {recorder === null ? 'Record' : 'Stop'}
        </button>
        <label class="inline soft">
          samples/s
          <input
            type="number"
            class="short"
            value={rate}
            onInput={(event) => setRate(Number(event.currentTarget.value))}
          />
        </label>
      </div>
      <span class="soft" role="status">
        {note}
      </span>
    </div>
  )
}

async function monoSamples(file: ArrayBuffer, rate: number): Promise<Float32Array> {
  const decoded = await new OfflineAudioContext(1, 1, rate).decodeAudioData(file)
  const mixer = new OfflineAudioContext(1, Math.max(1, Math.ceil(decoded.duration * rate)), rate)
  const source = mixer.createBufferSource()
  source.buffer = decoded
  source.connect(mixer.destination)
  source.start()
  return (await mixer.startRendering()).getChannelData(0)
}

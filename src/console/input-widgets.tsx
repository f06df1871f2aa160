// One widget for each way to fill an input. Each hands over values when they change, or says why there are none.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Filling } from './input-hints.ts'
import { flattened, readNumbers, type Filled, type InputSlot, type WidgetProps } from './input-kinds.ts'
import { Camera, Microphone } from './media-capture.tsx'
import { PictureInput } from './picture-input.tsx'
import { cellsOfInk, inkOf } from './pixels.ts'
import { messageOf } from './server-api.ts'
import { monoSamples, SoundInput, usualRate } from './sound-input.tsx'
import { wavOf } from './output-kinds.ts'

type Values = Extract<Filled, { values: unknown }>['values']

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
  const [text, setText] = useState(() => slot.hint.value ?? fill((i) => (isBool ? i % 2 : i % 16)))
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
  const [text, setText] = useState(slot.hint.value ?? 'Hello')
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
  const isText = slot.dataType === 'BYTES'
  useEffect(() => onFilled({ problem: `choose a file for ${slot.name}` }), [])
  const read = async (file: Blob | undefined, title: string): Promise<void> => {
    if (file === undefined) return
    setName(`${title}, ${file.size.toLocaleString('en')} bytes`)
    const bytes = new Uint8Array(await file.arrayBuffer())
    onFilled(isText ? { values: [bytes] } : { bytes })
  }
  const readSound = async (recorded: Blob): Promise<void> => {
    try {
      const samples = await monoSamples(await recorded.arrayBuffer(), usualRate)
      await read(new Blob([wavOf(samples, usualRate, false)]), 'a recording as WAV')
    } catch (reason) {
      onFilled({ problem: `the recording cannot be read: ${messageOf(reason)}` })
    }
  }
  return (
    <div class="stack">
      <div class="inline">
        <input
          type="file"
          aria-label={`File for ${slot.name}`}
          onChange={(event) => {
            const file = event.currentTarget.files?.[0]
            void read(file, file?.name ?? '')
          }}
        />
        {isText ? <Camera onPicture={(picture) => void read(picture, 'a picture as JPEG')} /> : null}
        {isText ? <Microphone onSound={(recorded) => void readSound(recorded)} /> : null}
      </div>
      <span class="soft" role="status">
        {name === '' ? (isText ? 'The whole file is one element.' : 'Raw little-endian values.') : name}
      </span>
    </div>
  )
}

const padSide = 240

function DrawingPad({ slot, onFilled }: WidgetProps): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null)
  const last = useRef<{ x: number; y: number } | null>(null)
  const cells = slot.layout?.height ?? 8
  const [most, setMost] = useState(slot.hint.ink ?? inkOf(cells, slot.dataType))
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

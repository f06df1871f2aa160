import type { JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { InputSlot, PixelLayout, WidgetProps } from './input-kinds.ts'
import { Camera } from './media-capture.tsx'
import { plainScale, tensorOfPixels } from './pixels.ts'

const imageNet = { mean: [0.485, 0.456, 0.406, 0], std: [0.229, 0.224, 0.225, 1] }

export function PictureInput({ slot, onFilled }: WidgetProps): JSX.Element {
  const layout = slot.layout as PixelLayout
  const preview = useRef<HTMLCanvasElement>(null)
  const isWhole = !slot.dataType.startsWith('FP')
  const [scale, setScale] = useState(slot.hint.scale ?? (isWhole ? 1 : Number((1 / 255).toFixed(6))))
  const { mean, std } = { mean: imageNet.mean, std: imageNet.std, ...slot.hint }
  const [isNormalised, setNormalised] = useState(slot.hint.mean !== undefined || slot.hint.std !== undefined)
  const [picture, setPicture] = useState<ImageBitmap | null>(null)
  const [problem, setProblem] = useState('')
  useEffect(() => onFilled({ problem: `choose a picture for ${slot.name}` }), [])
  // Before the browser paints: who sees the picture can run it.
  useLayoutEffect(() => {
    const canvas = preview.current
    const brush = canvas?.getContext('2d', { willReadFrequently: true })
    if (picture === null || canvas === null || brush === null || brush === undefined) return
    canvas.width = layout.width > 0 ? layout.width : picture.width
    canvas.height = layout.height > 0 ? layout.height : picture.height
    brush.drawImage(picture, 0, 0, canvas.width, canvas.height)
    const pixels = brush.getImageData(0, 0, canvas.width, canvas.height)
    const used = isNormalised ? { scale, mean, std } : { ...plainScale, scale }
    const values = tensorOfPixels(pixels, layout, used)
    onFilled({
      values: isWhole ? values.map(Math.round) : values,
      shape: slot.shape.map((size, i) => openSize(size, i, slot, layout, canvas)),
    })
  }, [picture, scale, isNormalised])
  const read = async (file: Blob | undefined): Promise<void> => {
    if (file === undefined) return
    try {
      setPicture(await createImageBitmap(file))
      setProblem('')
    } catch {
      setProblem('This browser cannot read the file as a picture.')
    }
  }
  // The whole page takes what is pasted, because nothing here would have the focus.
  useEffect(() => {
    const paste = (event: ClipboardEvent): void => void read(event.clipboardData?.files[0])
    document.addEventListener('paste', paste)
    return () => document.removeEventListener('paste', paste)
  }, [])
  return (
    <div class="stack">
      <div class="inline">
        <input
          type="file"
          accept="image/*"
          aria-label={`Picture for ${slot.name}`}
          onChange={(event) => void read(event.currentTarget.files?.[0])}
        />
        <Camera onPicture={(taken) => void read(taken)} />
      </div>
      {problem === '' ? (
        <span class="soft">Choose a picture, take one with the camera, or paste one.</span>
      ) : (
        <span class="problem" role="status">
          {problem}
        </span>
      )}
      <canvas
        ref={preview}
        class={picture === null ? 'hidden' : 'preview'}
        role="img"
        aria-label="The picture as the model gets it"
      />
      <div class="inline">
        <label class="inline soft">
          pixels times
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
            {slot.hint.mean === undefined && slot.hint.std === undefined
              ? 'ImageNet mean and deviation'
              : 'mean and deviation of the model'}
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

// The pictures of boxes and arrows in docs/figures: `npx node scripts/draw-pictures.ts`. Each picture is a table of boxes, texts and arrows.

import { writeFileSync } from 'node:fs'
import path from 'node:path'

type Tone = 'plain' | 'soft' | 'strong' | 'frame'
type Box = readonly [x: number, y: number, width: number, height: number, tone: Tone, title: string, note?: string]
type Arrow = readonly [fromX: number, fromY: number, toX: number, toY: number, label?: string]
type Words = readonly [x: number, y: number, text: string, anchor?: 'start' | 'middle' | 'end']
type Picture = {
  readonly title: string
  readonly size: readonly [width: number, height: number]
  readonly boxes: readonly Box[]
  readonly arrows?: readonly Arrow[]
  readonly words?: readonly Words[]
}

/** Fill, line and text of a box. The contrast of each text is at least 7 to 1. */
const tones: Record<Tone, readonly [fill: string, line: string, text: string]> = {
  plain: ['#ffffff', '#7a8b88', '#1b2b29'],
  soft: ['#e3f2ef', '#0b6e63', '#12302c'],
  strong: ['#0b5a51', '#0b5a51', '#ffffff'],
  frame: ['#f6f9f8', '#0b6e63', '#12302c'],
}

const escape = (text: string): string => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')

function drawBox([x, y, width, height, tone, title, note]: Box): string {
  const [fill, line, text] = tones[tone]
  const isFrame = tone === 'frame'
  const middle = x + width / 2
  const titleY = isFrame ? y + 20 : y + height / 2 + (note === undefined ? 5 : -3)
  const label = `<text x="${isFrame ? x + 14 : middle}" y="${titleY}" fill="${text}" font-weight="600" text-anchor="${isFrame ? 'start' : 'middle'}">${escape(title)}</text>`
  const noteText = note === undefined ? '' : `<text x="${middle}" y="${titleY + 17}" fill="${text}" font-size="11.5" text-anchor="middle">${escape(note)}</text>` // prettier-ignore
  return `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="7" fill="${fill}" stroke="${line}" stroke-width="1.3"/>${label}${noteText}`
}

function drawArrow([fromX, fromY, toX, toY, label]: Arrow): string {
  const line = `<line x1="${fromX}" y1="${fromY}" x2="${toX}" y2="${toY}" stroke="#36504c" stroke-width="1.5" marker-end="url(#tip)"/>`
  if (label === undefined) return line
  const isLevel = fromY === toY
  const at = `x="${(fromX + toX) / 2 + (isLevel ? 0 : 12)}" y="${(fromY + toY) / 2 - 6}" text-anchor="${isLevel ? 'middle' : 'start'}"`
  return `${line}<text ${at} font-size="11.5" fill="#36504c">${escape(label)}</text>`
}

function draw({ title, size: [width, height], boxes, arrows = [], words = [] }: Picture): string {
  const tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#36504c"/></marker>' // prettier-ignore
  const texts = words.map(([x, y, text, anchor = 'start']) => `<text x="${x}" y="${y}" font-size="12" fill="#36504c" text-anchor="${anchor}">${escape(text)}</text>`) // prettier-ignore
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="13.5" role="img" aria-label="${escape(title)}">`,
    `<defs>${tip}</defs><rect width="${width}" height="${height}" rx="10" fill="#ffffff"/>`,
    ...boxes.map(drawBox),
    ...arrows.map(drawArrow),
    ...texts,
    '</svg>\n',
  ].join('\n')
}

const column = (x: number, y: number, width: number, step: number, tone: Tone, titles: readonly string[]): Box[] =>
  titles.map((title, i) => [x, y + i * step, width, step - 10, tone, title])

const architecture: Picture = {
  title:
    'Clients of many protocols, one server process with admission, choice of a version and scheduling, and executors apart from each other',
  size: [980, 520],
  boxes: [
    ...column(20, 52, 170, 46, 'plain', ['Triton: HTTP, gRPC', 'OpenAI', 'TensorFlow Serving', 'TorchServe', 'KServe v1', 'SageMaker, Vertex AI', 'files and queues', 'browser: console']), // prettier-ignore
    [230, 30, 520, 400, 'frame', 'Galatea: one process, one event loop'],
    [250, 66, 140, 60, 'soft', 'front ends', 'read and write bytes'],
    [420, 66, 140, 60, 'soft', 'admission', 'keys, limits, shares'],
    [590, 66, 140, 60, 'soft', 'choice', 'version, rollout'],
    [250, 166, 480, 60, 'strong', 'scheduling', 'batches, sequences, ensembles, cache, overload'],
    [250, 270, 112, 66, 'plain', 'ONNX', 'threads, GPU'],
    [373, 270, 112, 66, 'plain', 'TypeScript', 'thread each'],
    [496, 270, 112, 66, 'plain', 'Python', 'process each'],
    [619, 270, 112, 66, 'plain', 'C++ of Triton', 'process each'],
    [250, 350, 236, 60, 'plain', 'language models', 'llama.cpp process, vLLM, other servers'],
    [496, 350, 235, 60, 'plain', 'frameworks', 'PyTorch, TensorFlow, scikit-learn …'],
    ...column(780, 66, 190, 56, 'plain', ['model repository', 'Prometheus, Grafana', 'Jaeger, OpenTelemetry', 'Redis: several servers', 'Envoy, Kubernetes']), // prettier-ignore
    [
      20,
      452,
      940,
      48,
      'soft',
      'every stage stamps its time on the request: statistics, metrics, traces and logs are made from the same stamps',
    ],
  ],
  arrows: [
    [192, 96, 246, 96], [392, 96, 416, 96], [562, 96, 586, 96], [660, 128, 660, 162],
    [306, 228, 306, 266], [429, 228, 429, 266], [552, 228, 552, 266], [675, 228, 675, 266], [752, 230, 776, 230],
  ], // prettier-ignore
  words: [
    [20, 36, 'clients, unchanged'],
    [780, 50, 'around it, where wanted'],
  ],
}

const life: Picture = {
  title: 'The stages of one request from the socket to the model and back',
  size: [980, 250],
  boxes: [
    ...(['socket', 'admission', 'route', 'choice', 'read', 'check', 'schedule', 'execute'] as const).map(
      (title, i): Box => [20 + i * 120, 60, 100, 54, i === 7 ? 'strong' : 'soft', title, ['bytes', 'who, how much', 'which protocol', 'which version', 'into tensors', 'the signature', 'wait, batch', 'the model'][i] ?? ''], // prettier-ignore
    ),
    ...(['socket', 'write', 'account', 'answer stages'] as const).map(
      (title, i): Box => [20 + i * 200, 160, 160, 54, 'plain', title, ['bytes', 'tensors into bytes', 'statistics, trace', 'trim, order, share, keep'][i] ?? ''], // prettier-ignore
    ),
  ],
  arrows: [
    ...Array.from({ length: 7 }, (_, i): Arrow => [121 + i * 120, 87, 138 + i * 120, 87]),
    [910, 116, 784, 184],
    ...Array.from({ length: 3 }, (_, i): Arrow => [619 - i * 200, 187, 582 - i * 200, 187]),
  ],
  words: [
    [
      20,
      40,
      'A small request on a free model is one call stack: nothing is awaited between the first byte and the last.',
    ],
  ],
}

const rowsOf = (y: number, starts: readonly number[]): Box[] =>
  starts.map((x, i): Box => [x, y, 30, 26, 'soft', `r${i + 1}`])

const batching: Picture = {
  title: 'Six requests on a time line: one at a time, and as two batches',
  size: [900, 330],
  boxes: [
    ...rowsOf(40, [110, 144, 178, 212, 330, 364]),
    ...Array.from({ length: 6 }, (_, i): Box => [118 + i * 122, 120, 116, 40, 'plain', `run r${i + 1}`]),
    [118, 220, 116, 40, 'strong', 'run r1'],
    [240, 220, 176, 40, 'strong', 'run r2 + r3 + r4'],
    [422, 220, 148, 40, 'strong', 'run r5 + r6'],
  ],
  arrows: [[110, 300, 870, 300]],
  words: [
    [16, 58, 'arrive'], [16, 145, 'one by one'], [16, 245, 'batched'], [870, 318, 'time', 'end'],
    [240, 210, 'r2, r3, r4 wait while r1 runs, then run as one'],
    [582, 245, 'done: the model is free again'],
  ], // prettier-ignore
}

const ensemble: Picture = {
  title: 'The ensemble of the OCR example: a picture in, lines of text out',
  size: [980, 290],
  boxes: [
    [20, 65, 90, 50, 'plain', 'picture'],
    [160, 60, 150, 60, 'soft', 'ocr_image', 'decode, resize'],
    [400, 60, 150, 60, 'strong', 'ocr_detect', 'ONNX: where is text'],
    [640, 60, 150, 60, 'soft', 'ocr_crop', 'cut the lines out'],
    [810, 190, 150, 60, 'strong', 'ocr_classify', 'ONNX: upside down?'],
    [590, 190, 150, 60, 'soft', 'ocr_turn', 'turn lines upright'],
    [350, 190, 150, 60, 'strong', 'ocr_recognise', 'ONNX: which letters'],
    [130, 190, 150, 60, 'soft', 'ocr_text', 'letters into words'],
  ],
  arrows: [
    [112, 90, 156, 90], [312, 90, 396, 90, 'detect_input'], [552, 90, 636, 90, 'map'], [760, 122, 860, 186, 'thumbs'],
    [808, 220, 744, 220, 'angles'], [690, 122, 670, 186, 'lines'], [588, 220, 504, 220, 'upright'], [348, 220, 284, 220, 'scores'], [128, 220, 80, 220],
  ], // prettier-ignore
  words: [
    [20, 30, 'Boxes are models, arrows are tensors. Each model has a batcher, instances and figures of its own.'],
    [72, 224, 'TEXT', 'end'],
  ],
}

const folder = path.join(import.meta.dirname, '../docs/figures')
const pictures = { architecture, 'life-of-a-request': life, 'batching-timeline': batching, 'ensemble-graph': ensemble }
for (const [name, picture] of Object.entries(pictures)) writeFileSync(path.join(folder, `${name}.svg`), draw(picture))

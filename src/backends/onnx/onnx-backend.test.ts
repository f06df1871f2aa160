import { allTypes, describeOnnxBackend } from './onnx-backend.contract.ts'

describeOnnxBackend('onnxruntime through the C API', {
  settings: { binding: 'c-api' },
  types: allTypes,
  carriesAnyBytesInStrings: true,
  canOverrideInitializers: true,
})

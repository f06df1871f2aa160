import { allTypes, describeOnnxBackend } from '../onnx-backend.contract.ts'

describeOnnxBackend('onnxruntime through onnxruntime-node', {
  settings: { binding: 'javascript' },
  types: allTypes.filter((type) => type !== 'BF16'),
  carriesAnyBytesInStrings: false,
  canOverrideInitializers: false,
})

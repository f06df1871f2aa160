// Models whose text is right and that fail when they are loaded: `galatea check` finds them because it loads them.

import { buildOnnx, floats, identityModel, type OnnxModel } from '../fixtures/onnx/build-onnx.ts'
import type { Mistake } from './beginner-mistakes.ts'

const io =
  'input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }\n'
const fails = (files: Mistake['files'], text: RegExp, rule = 'load'): Mistake => ({ files, says: [rule, text] })

const python = (code: string, text: RegExp, further: Mistake['files'] = {}): Mistake =>
  fails({ 'config.pbtxt': `backend: "python"\n${io}`, '1/model.py': code, ...further }, text)
const method = (name: string, body: string): string =>
  `class TritonPythonModel:\n    def ${name}(self, args):\n        ${body}\n    def execute(self, requests):\n        return []\n`
const script = (code: string, text: RegExp): Mistake =>
  fails({ '1/model.ts': code, 'config.pbtxt': `backend: "typescript"\n${io}` }, text)
const framework = (backend: string, file: string, content = 'x'): Mistake =>
  fails({ [`1/${file}`]: content, 'config.pbtxt': `backend: "${backend}"\n${io}` }, /./)
const onnx = (change: Partial<OnnxModel>, text: RegExp): Mistake =>
  fails({ '1/model.onnx': buildOnnx({ ...identityModel('FP32', [1]), ...change }) }, text)
const withConfig = (text: string, says: RegExp, rule?: string): Mistake =>
  fails({ '1/model.onnx': buildOnnx(identityModel('FP32', [1])), 'config.pbtxt': text }, says, rule)

const added = { op: 'Add', inputs: ['INPUT', 'W'], outputs: ['OUTPUT'] }

export const failingModels: Readonly<Record<string, Mistake>> = {
  onnx_external: onnx(
    {
      nodes: [added],
      initializers: [{ name: 'W', type: 'FP32', dims: [1], external: { location: 'model.onnx.data', length: 4 } }],
    },
    /its weights lie in other files \('model\.onnx\.data'\) that are missing/,
  ),
  onnx_domain: onnx(
    {
      nodes: [{ op: 'Mine', inputs: ['INPUT'], outputs: ['OUTPUT'], domain: 'com.example' }],
      extraOpsets: [{ domain: 'com.example', version: 1 }],
    },
    /op_library_filename/,
  ),
  onnx_operator: onnx({ nodes: [{ op: 'Idntity', inputs: ['INPUT'], outputs: ['OUTPUT'] }] }, /Idntity/),
  onnx_opset: onnx({ opset: 99 }, /export it with opset_version/),
  onnx_ir: onnx({ irVersion: 99 }, /IR version 99 is newer/),
  onnx_weights: onnx(
    { nodes: [added], initializers: [{ name: 'W', type: 'FP32', dims: [7], raw: floats(1) }] },
    /failed to load/,
  ),
  onnx_library: withConfig('model_operations { op_library_filename: "/nowhere/ops.so" }\n', /ops\.so/),
  checksum: withConfig(
    'model_repository_agents { agents { name: "checksum" parameters { key: "MD5:1/model.onnx" value: "00" } } }\n',
    /./,
  ),
  warm_up_file: withConfig(
    'model_warmup { name: "w" batch_size: 1 inputs { key: "INPUT" value { data_type: TYPE_FP32 dims: [ 1 ] input_data_file: "a" } } }\n',
    /./,
  ),
  python_raises: python(method('initialize', 'raise ValueError("no table")'), /no table/),
  python_import: python(`import a_module_that_nobody_has\n${method('finalize', 'pass')}`, /No module named 'a_module/),
  python_helper: python(`import helper\n${method('finalize', 'pass')}`, /SyntaxError|invalid syntax/, {
    '1/helper.py': 'def (\n',
  }),
  python_file: python(method('initialize', 'open("/nowhere/table.csv")'), /table\.csv/),
  python_exits: python(`import os\nos._exit(3)\n${method('finalize', 'pass')}`, /exit/),
  python_leaves: python(`raise SystemExit(3)\n${method('finalize', 'pass')}`, /./),
  python_completes: python(
    'class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(config):\n        raise ValueError("no shape")\n' +
      '    def execute(self, requests):\n        return []\n',
    /no shape/,
  ),
  script_nothing: script('export const inference = () => []\n', /infer/),
  script_package: script(
    "import 'a-package-that-nobody-has'\nexport const infer = () => []\n",
    /a-package-that-nobody/,
  ),
  script_throws: script("throw new Error('no table')\nexport const infer = () => []\n", /no table/),
  script_initialize: script(
    "export const initialize = () => { throw new Error('no key') }\nexport const infer = () => []\n",
    /no key/,
  ),
  script_number: script('export const infer = 3\n', /infer/),
  script_export: script("import { nothing } from 'node:path'\nexport const infer = () => [nothing]\n", /nothing/),
  sklearn: framework('sklearn', 'model.skops'),
  pytorch: framework('pytorch', 'model.pt'),
  tensorflow: framework('tensorflow', 'model.savedmodel/saved_model.pb'),
  openvino: framework('openvino', 'model.xml', '<net'),
  xgboost: framework('xgboost', 'model.json', '{}'),
  lightgbm: framework('lightgbm', 'model.txt'),
  vllm: framework('vllm', 'model.json', '{"model": "/nowhere"}'),
  gguf: fails({ '1/model.gguf': 'GGUF' }, /./, 'model-file'),
  router: fails({ '1/route.yaml': 'routes: [ { model: nobody } ]\n' }, /./, 'model-file'),
  openai: fails({ 'config.pbtxt': 'backend: "openai"\n', '1/.gitkeep': '' }, /./),
}

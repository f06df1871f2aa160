// The mistakes that people make in a repository, each as the files of one model, with what `galatea check` has to say.

export type Mistake = {
  /** By path inside the model's folder; `@digits` stands for the bytes of the example's ONNX file. */
  readonly files: Readonly<Record<string, string | Uint8Array>>
  /** The rule, and a part of the message or the fix. */
  readonly says: readonly [rule: string, text: RegExp]
  /** The server serves it all the same: what is found is a warning. */
  readonly isServed?: true
}

const onnx = { '1/model.onnx': '@digits' }
const io = (type = 'TYPE_FP32', dims = '64', name = 'pixels'): string =>
  `input { name: "${name}" data_type: ${type} dims: [ ${dims} ] }\noutput { name: "scores" data_type: TYPE_FP32 dims: [ 10 ] }\n`
const config = (text: string): Record<string, string> => ({ ...onnx, 'config.pbtxt': text })
const whole = `backend: "onnxruntime"\nmax_batch_size: 8\n${io()}`
const pythonIo =
  'input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }\n'
const python = (code: string, text = `backend: "python"\n${pythonIo}`): Record<string, string> => ({
  'config.pbtxt': text,
  '1/model.py': code,
})
const step = (text: string): Record<string, string> => ({
  '1/.gitkeep': '',
  'config.pbtxt':
    `platform: "ensemble"\nmax_batch_size: 4\n${io()}` +
    `ensemble_scheduling { step { model_version: -1 ${text} output_map { key: "scores" value: "scores" } } }\n`,
})

export const mistakes: Readonly<Record<string, Mistake>> = {
  wrong_dims: {
    files: config(`backend: "onnxruntime"\nmax_batch_size: 8\n${io('TYPE_FP32', '13')}`),
    says: ['signature', /write dims: \[ 64 \]/],
  },
  wrong_type: {
    files: config(`backend: "onnxruntime"\nmax_batch_size: 8\n${io('TYPE_FP64')}`),
    says: ['signature', /write data_type: TYPE_FP32/],
  },
  no_batch_size: {
    files: config(`backend: "onnxruntime"\n${io()}dynamic_batching { }\n`),
    says: ['signature', /set max_batch_size/],
  },
  wrong_file_name: {
    files: { '1/wine.onnx': '@digits', 'config.pbtxt': whole },
    says: ['model-file', /has wine\.onnx: rename it/],
  },
  folder_v1: { files: { 'v1/model.onnx': '@digits', 'config.pbtxt': whole }, says: ['layout', /rename it to '1'/] },
  folder_01: { files: { '01/model.onnx': '@digits', 'config.pbtxt': whole }, says: ['layout', /rename it to '1'/] },
  no_folder: {
    files: { 'model.onnx': '@digits', 'config.pbtxt': whole },
    says: ['no-version', /move 'model\.onnx' to '1\/model\.onnx'/],
  },
  typo_field: { files: config(`${whole}max_bach_size: 3\n`), says: ['text', /did you mean 'max_batch_size'/] },
  typo_kind: { files: config(`${whole}instance_group { kind: CPU }\n`), says: ['text', /did you mean KIND_CPU/] },
  no_backend: { files: { '1/weights.bin': 'x', 'config.pbtxt': io() }, says: ['poll', /write backend: "onnxruntime"/] },
  backend_onnx: {
    files: config(whole.replace('onnxruntime', 'onnx')),
    says: ['backend', /did you mean 'onnxruntime'/],
  },
  backend_typo: { files: config(whole.replace('onnxruntime', 'onxruntime')), says: ['backend', /did you mean 'onnxr/] },
  tensorrt: {
    files: { '1/model.plan': 'x', 'config.pbtxt': `platform: "tensorrt_plan"\n${io()}` },
    says: ['backend', /'tensorrt' is a backend of Triton's that Galatea does not have: export the model to ONNX/],
  },
  tensorrt_onnx: { files: config(`platform: "tensorrt_plan"\n${io()}`), says: ['backend', /export the model to ONNX/] },
  dali: {
    files: { '1/model.dali': 'x', 'config.pbtxt': `backend: "dali"\n${io()}` },
    says: ['backend', /Python model/],
  },
  fil: {
    files: { '1/model.txt': 'x', 'config.pbtxt': `backend: "fil"\n${io()}` },
    says: ['backend', /backend: "xgboost" or "lightgbm"/],
  },
  tensorrtllm: { files: { '1/x': '', 'config.pbtxt': `backend: "tensorrtllm"\n${io()}` }, says: ['backend', /beside/] },
  gpu: { files: config(`${whole}instance_group { kind: KIND_GPU gpus: [ 0 ] }\n`), says: ['load', /use KIND_CPU/] },
  other_name: { files: config(`name: "wine"\n${whole}`), says: ['poll', /write name: "other_name"/] },
  missing_brace: {
    files: config('backend: "onnxruntime"\ninput [\n  { name: "pixels" data_type: TYPE_FP32 dims: [ 64 ]\n]\n'),
    says: ['text', /the '\{' of line 3 is still open: write '\}' before this '\]'/],
  },
  stray_brace: { files: config(`${whole}}\n`), says: ['text', /nothing is open here/] },
  wrong_input: {
    files: config(`backend: "onnxruntime"\nmax_batch_size: 8\n${io('TYPE_FP32', '64', 'image')}`),
    says: ['signature', /rename it to one of pixels/],
  },
  no_labels: {
    files: config(whole.replace('"scores"', '"scores" label_filename: "labels.txt"')),
    says: ['label-file', /add the file/],
  },
  preferred_size: {
    files: config(`${whole}dynamic_batching { preferred_batch_size: [ 64 ] }\n`),
    says: ['poll', /lower it to 8/],
  },
  unquoted_backend: { files: config('backend: onnxruntime\n'), says: ['text', /"onnxruntime"|quotes/] },
  equals_sign: { files: config('backend = "onnxruntime"\n'), says: ['text', /field: value/] },
  absent_version: {
    files: config(`${whole}version_policy { specific { versions: [ 3 ] } }\n`),
    says: ['no-version', /the folder has version 1/],
  },
  bare_parameter: {
    files: config(`${whole}parameters: { key: "k" value: "2" }\n`),
    says: ['text', /write value \{ string_value: "2" \}/],
  },
  lfs_pointer: {
    files: {
      '1/model.onnx': 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n',
      'config.pbtxt': whole,
    },
    says: ['model-file', /git lfs pull/],
  },
  cut_off: {
    files: { '1/model.onnx': '\b\u0007\u0012', 'config.pbtxt': whole },
    says: ['model-file', /export it again/],
  },
  onnx_parameter: {
    files: config(`${whole}parameters { key: "intra_op_num_threads" value { string_value: "2" } }\n`),
    says: ['model-file', /'intra_op_num_threads' is not known to the onnxruntime backend/],
    isServed: true,
  },
  misnamed_config: {
    files: { ...onnx, 'config.pbtext': whole },
    says: ['layout', /'config\.pbtext' is ignored/],
    isServed: true,
  },
  step_unknown: {
    files: step('model_name: "god" input_map { key: "pixels" value: "pixels" }'),
    says: ['ensemble', /did you mean 'good'/],
  },
  step_version: {
    files: withConfig(step('model_name: "good" input_map { key: "pixels" value: "pixels" }'), ': -1', ': 7'),
    says: ['ensemble', /version 7 is not loaded/],
  },
  step_tensor: {
    files: step('model_name: "good" input_map { key: "image" value: "pixels" }'),
    says: ['ensemble', /non-existing input image/],
  },
  step_type: {
    files: withConfig(step('model_name: "good" input_map { key: "pixels" value: "pixels" }'), 'TYPE_FP32', 'TYPE_FP64'),
    says: ['ensemble', /inconsistent data type/],
  },
  step_dims: {
    files: withConfig(step('model_name: "good" input_map { key: "pixels" value: "pixels" }'), '[ 64 ]', '[ 63 ]'),
    says: ['ensemble', /inconsistent shape/],
  },
  step_failing: {
    files: step('model_name: "wrong_dims" input_map { key: "pixels" value: "pixels" }'),
    says: ['ensemble', /mend 'wrong_dims' first/],
  },
  step_circle: {
    files: step('model_name: "step_circle_back" input_map { key: "pixels" value: "pixels" }'),
    says: ['ensemble', /circular dependency/],
  },
  step_circle_back: {
    files: step('model_name: "step_circle" input_map { key: "pixels" value: "pixels" }'),
    says: ['ensemble', /circular dependency/],
  },
  step_itself: {
    files: step('model_name: "step_itself" input_map { key: "pixels" value: "pixels" }'),
    says: ['ensemble', /cannot call itself/],
  },
  python_syntax: { files: python('class TritonPythonModel\n    pass\n'), says: ['model-file', /SyntaxError/] },
  python_class: { files: python('class Model:\n    pass\n'), says: ['model-file', /TritonPythonModel/] },
  python_bare: {
    files: python(
      'class TritonPythonModel:\n    def execute(self, requests):\n        return []\n',
      'backend: "python"\n',
    ),
    says: ['model-file', /no request fits it/],
    isServed: true,
  },
  script_syntax: {
    files: { '1/model.ts': 'export const infer = (request: {;\n' },
    says: ['model-file', /SyntaxError/],
  },
  script_enum: {
    files: { '1/model.ts': 'enum A { B }\nexport const infer = () => [A.B]\n' },
    says: ['model-file', /as const/],
  },
  script_import: {
    files: { '1/model.ts': "import { a } from './helper'\nexport const infer = () => a\n" },
    says: ['model-file', /Cannot find module '\.\/helper'/],
  },
  pickle: { files: { '1/model.joblib': 'x' }, says: ['model-file', /--allow-pickle-models/] },
  warm_up: {
    files: config(
      `${whole}model_warmup { name: "w" batch_size: 1 inputs { key: "pixels" value { data_type: TYPE_FP64 dims: [ 64 ] zero_data: true } } }\n`,
    ),
    says: ['load', /data-type is 'FP64'/],
  },
}

function withConfig(files: Record<string, string>, from: string, to: string): Record<string, string> {
  return { ...files, 'config.pbtxt': (files['config.pbtxt'] ?? '').replace(from, to) }
}

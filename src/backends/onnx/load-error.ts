// Error texts for a model file that could not be loaded: which file, what is wrong, what to do. The text of ONNX
// Runtime stays at the end, in Triton's form.

import { messageOf, ServerError } from '../../base/server-error.ts'
import type { OnnxFile } from '../../onnx-file/onnx-file.ts'

type Words = { readonly pattern: RegExp; readonly say: (match: RegExpExecArray, header: OnnxFile | null) => string }

const cases: readonly Words[] = [
  {
    pattern: /protobuf parsing failed|failed to parse|ModelProto does not have a graph/i,
    say: () => 'it is not a whole ONNX file; it may be cut off or a Git LFS pointer: copy or export it again',
  },
  {
    pattern:
      /is under development and support for this is limited.*?current official support for domain (\S+) is till opset (\d+)/is,
    say: ([, domain, newest]) =>
      `it uses an operator set (${domain}) newer than this version of ONNX Runtime knows (${newest}): export it with opset_version=${newest} or lower`,
  },
  {
    pattern: /Unsupported model IR version: (\d+), max supported IR version: (\d+)/i,
    say: ([, got, newest]) =>
      `its IR version ${got} is newer than this version of ONNX Runtime knows (${newest}): export it with an older onnx package`,
  },
  {
    pattern:
      /external data|model_path must not be empty|External initializer|file_size|doesn't exist or is not accessible/i,
    say: (_, header) => {
      const names = (header?.externalFiles ?? []).map((name) => `'${name}'`).join(', ')
      return `its weights lie in other files (${names || 'external data'}) that are missing, too short or outside the folder: put them beside the model file`
    },
  },
  {
    pattern: /(\S+) is not a registered function\/op|No Op registered for (\S+)/i,
    say: ([, first, second]) =>
      `it needs the operator ${first ?? second}, which ONNX Runtime does not have: name the library that has it in model_operations.op_library_filename, or export the model without it`,
  },
  {
    pattern: /NOT_IMPLEMENTED : Could not find an implementation for (\S+)/i,
    say: ([, operator]) => `ONNX Runtime has no implementation of ${operator} for these types on the CPU`,
  },
  {
    pattern: /Failed to construct locale with name:\s*([\w.@-]+?)[:\s]/i,
    say: ([, locale]) =>
      `its StringNormalizer wants the locale ${locale}, which this machine does not have: install that locale, or convert the model without it (skl2onnx: convert_sklearn(…, options={vectoriser: {'locale': 'C'}}))`,
  },
  {
    pattern: /Failed to load library (\S+)/i,
    say: ([, library]) =>
      `the library with custom operators ${library} cannot be loaded: check the path and its own dependencies`,
  },
]

export function describeLoadError(reason: unknown, file: string, header: OnnxFile | null): ServerError {
  if (reason instanceof ServerError) return reason
  const message = messageOf(reason)
  const code = (reason as { code?: unknown }).code
  const original = typeof code === 'number' ? `onnx runtime error ${code}: ${message}` : message
  for (const { pattern, say } of cases) {
    const match = pattern.exec(message)
    if (match === null) continue
    return new ServerError('INTERNAL', `failed to load '${file}': ${say(match, header)}. ${original}`, {
      cause: reason,
    })
  }
  return new ServerError('INTERNAL', `failed to load '${file}': ${original}`, { cause: reason })
}

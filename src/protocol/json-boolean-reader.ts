import type { ElementBuffer } from './element-buffer.ts'
import { char, type JsonScanner } from './json-scanner.ts'
import type { DataProblem } from './tensor-data-problem.ts'

/** Like `readFloats`, for true and false. */
export function readBooleans(scanner: JsonScanner, buffer: ElementBuffer): DataProblem | null {
  let index = 0
  let depth = 0
  for (;;) {
    const c = scanner.peek()
    if (c === char.leftBracket) {
      if (scanner.nextElement(true)) {
        depth++
        continue
      }
    } else {
      if (index === buffer.count) return 'count'
      if (c !== 0x74 && c !== 0x66) return 'type'
      scanner.scanLiteralOrNumber()
      if (index === buffer.capacity) buffer.grow(scanner.end - scanner.position)
      buffer.bytes[index++] = c === 0x74 ? 1 : 0
    }
    for (;;) {
      if (depth === 0) return index === buffer.count ? null : 'count'
      if (scanner.nextElement(false)) break
      depth--
    }
  }
}

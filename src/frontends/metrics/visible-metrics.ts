/** The page without the lines about models that its reader may not see. Lines without a model are about the server. */
export function withoutModels(page: Buffer, isVisible: (model: string) => boolean): Buffer {
  const lines = page.toString().split('\n')
  return Buffer.from(lines.filter((line) => line.startsWith('#') || isSeen(line, isVisible)).join('\n'))
}

/** A model's name is the value of the label `model`, with quotes, backslashes and line ends escaped. */
const modelLabel = /[{,]model="((?:[^"\\]|\\.)*)"/

function isSeen(line: string, isVisible: (model: string) => boolean): boolean {
  const [, value] = modelLabel.exec(line) ?? []
  return value === undefined || isVisible(value.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c)))
}

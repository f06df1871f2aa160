// Copies a folder of templates, with a name of the user's own in the names of files and in their texts.

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'

type GrownTree = {
  readonly source: string
  readonly target: string
  /** What stands in the templates for the name: `my_model`. */
  readonly placeholder: string
  readonly name: string
  /** Further words that are replaced in texts. */
  readonly words?: Readonly<Record<string, string>>
}

/** npm leaves files of this name out of packages: the template has it without the dot. */
const renamed: Readonly<Record<string, string>> = { gitignore: '.gitignore' }

/** Resolves with the files that were written, relative to the target. */
export async function growTree(tree: GrownTree): Promise<string[]> {
  const { source, target, placeholder, name, words = {} } = tree
  const named = (text: string): string => text.replaceAll(placeholder, () => name)
  const written: string[] = []
  const entries = await readdir(source, { recursive: true, withFileTypes: true })
  for (const entry of entries.toSorted((one, other) => place(one).localeCompare(place(other)))) {
    const from = place(entry)
    const to = named(path.relative(source, path.join(entry.parentPath, renamed[entry.name] ?? entry.name)))
    if (entry.isDirectory()) {
      await mkdir(path.join(target, to), { recursive: true })
      continue
    }
    // An empty file that keeps a folder in git.
    if (entry.name === '.gitkeep') continue
    let text = named(await readFile(from, 'utf8'))
    for (const [word, value] of Object.entries(words)) text = text.replaceAll(word, () => value)
    await mkdir(path.dirname(path.join(target, to)), { recursive: true })
    await writeFile(path.join(target, to), text, { flag: 'wx' })
    written.push(to)
  }
  return written
}

const place = (entry: { readonly parentPath: string; readonly name: string }): string =>
  path.join(entry.parentPath, entry.name)

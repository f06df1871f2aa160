// Links of the pages to files that are no pages: models, scripts, configurations. The site keeps a copy of each under /files.

import { cpSync, existsSync, mkdirSync, statSync } from 'node:fs'
import path from 'node:path'

type Token = { attrGet(name: string): string | null; attrSet(name: string, value: string): void }
type Page = { readonly realPath?: string; readonly path: string }
type Renderer = { renderToken(tokens: Token[], index: number, options: unknown): string }
type Rule = (tokens: Token[], index: number, options: unknown, env: Page, self: Renderer) => string
/** What is used here of markdown-it. */
export type MarkdownIt = { readonly renderer: { readonly rules: { link_open?: Rule } } }

/** Where the site shows a Markdown file of the project. */
export const pagePath = (page: string): string => page.replace(/^docs\//, '').replace(/README\.md$/, 'index.md')

const isOutside = (link: string): boolean => /^([a-z]+:|#|\/)/.test(link)

/** As text, so that a browser shows the file. */
const copyOf = (file: string): string => `files/${file}.txt`

const linked = new Set<string>()

/** Makes relative links absolute: to the address of a page, or to the copy of a file. A folder is its README.md, or else goes nowhere. */
export function linkToFiles(markdown: MarkdownIt, root: string): void {
  const render = markdown.renderer.rules.link_open
  markdown.renderer.rules.link_open = (tokens, index, options, env, self) => {
    const token = tokens[index]
    const link = token?.attrGet('href') ?? '#'
    if (token !== undefined && !isOutside(link)) {
      const [name = '', anchor] = link.split('#')
      const file = path.resolve(path.dirname(env.realPath ?? env.path), decodeURI(name))
      token.attrSet('href', `${addressOf(root, file)}${anchor === undefined ? '' : `#${anchor}`}`)
    }
    return render?.(tokens, index, options, env, self) ?? self.renderToken(tokens, index, options)
  }
}

function addressOf(root: string, file: string): string {
  if (existsSync(file) && statSync(file).isDirectory()) {
    const readme = path.join(file, 'README.md')
    return existsSync(readme) ? addressOf(root, readme) : '#'
  }
  const inProject = path.relative(root, file)
  if (file.endsWith('.md')) return `/${pagePath(inProject)}`
  linked.add(inProject)
  return `/${copyOf(inProject)}`
}

export function copyLinkedFiles(root: string, outDir: string): void {
  for (const file of linked) {
    const copy = path.join(outDir, copyOf(file))
    mkdirSync(path.dirname(copy), { recursive: true })
    cpSync(path.join(root, file), copy)
  }
}

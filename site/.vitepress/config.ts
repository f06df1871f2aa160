// The documentation site: `npm run docs` writes static files to .cache/site. The pages are the Markdown files of the project, read
// where they lie; docs/README.md is the index, and the menu of the site is made from the index.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { home } from './home.ts'
import { copyLinkedFiles, linkToFiles, pagePath, type MarkdownIt } from './linked-files.ts'
import { sidebarOf } from './sidebar.ts'

const root = path.resolve(import.meta.dirname, '../..')
const index = readFileSync(path.join(root, 'docs/README.md'), 'utf8')
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string }

/** Nothing comes from another host. The theme writes styles and small scripts into its pages. */
const policy =
  "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
const head = [['meta', { 'http-equiv': 'Content-Security-Policy', content: policy }]]

/** As GitHub makes them, so that a link works here and there. */
const slugify = (heading: string): string =>
  heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-') // prettier-ignore

type Renderer = { readonly render: (source: string, env: { readonly relativePath: string }) => string }

/** What the search reads of a page. The changelog has every word of the project, and came before the page that explains it. */
const searchedText = (source: string, env: { readonly relativePath: string }, renderer: Renderer): string => {
  const html = renderer.render(source, env)
  return env.relativePath.endsWith('CHANGELOG.md') ? '' : html
}

// VitePress is installed by scripts/build-site.ts, so its types are not at hand here.
export default {
  title: 'Galatea',
  description: 'A model inference server in TypeScript: a drop-in for NVIDIA Triton that installs with npm',
  lang: 'en',
  srcDir: root,
  srcExclude: [
    '{node_modules,test,src,site,.cache,.git,.github,dist,native,python}/**',
    'README.md',
    '**/node_modules/**',
  ],
  outDir: path.join(root, '.cache/site'),
  cacheDir: path.join(root, '.cache/vitepress'),
  rewrites: pagePath,
  ignoreDeadLinks: 'localhostLinks',
  cleanUrls: false,
  head: [...head, ['link', { rel: 'icon', href: '/galatea.svg', type: 'image/svg+xml' }]],
  vite: { publicDir: path.join(root, 'site/public'), build: { chunkSizeWarningLimit: 8000 } },
  markdown: {
    config: (markdown: MarkdownIt) => linkToFiles(markdown, root),
    anchor: { slugify },
    languageAlias: { pbtxt: 'hcl' },
  },
  transformPageData: (page: { relativePath: string; frontmatter: Record<string, unknown> }) => {
    if (page.relativePath === 'index.md') page.frontmatter = { ...page.frontmatter, ...home }
  },
  buildEnd: ({ outDir }: { outDir: string }) => copyLinkedFiles(root, outDir),
  themeConfig: {
    logo: '/galatea.svg',
    search: {
      provider: 'local',
      options: { _render: searchedText },
    },
    nav: [
      { text: 'Quickstart', link: '/guide/quickstart' },
      { text: 'Guide', link: '/#guide' },
      { text: 'Reference', link: '/reference/flags' },
      { text: 'Internals', link: '/internals/life-of-a-request' },
      { text: version, link: '/CHANGELOG' },
    ],
    sidebar: sidebarOf(index),
    outline: { level: [2, 3], label: 'On this page' },
    docFooter: { prev: 'Before', next: 'Next' },
    footer: { message: 'Apache-2.0' },
  },
}

// src/console → one page, one script, one style sheet. The server calls this in a checkout, scripts/build.ts for the package.

import { createHash } from 'node:crypto'
import path from 'node:path'
import { build } from 'esbuild'

const root = path.join(import.meta.dirname, '..')

/** File name → contents. Names carry a hash of the contents, but for the page itself. */
export async function bundleConsole(): Promise<Map<string, string>> {
  const { outputFiles } = await build({
    entryPoints: [path.join(root, 'src/console/main.tsx')],
    outdir: path.join(root, 'console'),
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: ['es2023', 'chrome120', 'firefox121', 'safari17.4'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    tsconfig: path.join(root, 'src/console/tsconfig.json'),
  })
  const files = new Map<string, string>()
  const named: Record<string, string> = {}
  for (const { path: file, text } of outputFiles) {
    const extension = path.extname(file)
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 12)
    const name = `console-${hash}${extension}`
    named[extension] = name
    files.set(name, text)
  }
  files.set('index.html', page(named['.js'] ?? '', named['.css'] ?? ''))
  return files
}

const page = (script: string, style: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Galatea</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/console/${style}">
<script type="module" src="/console/${script}"></script>
</head>
<body>
<div id="console"><aside class="side"><a class="brand" href="/console">Galatea</a></aside><main id="page"><p class="lead">Opening the console…</p></main></div>
<noscript>The console needs JavaScript. The API is at /v2, its description at /v2/openapi.json.</noscript>
</body>
</html>
`

// One page with nothing to load from elsewhere.

const style =
  'body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#24292f;background:#fff}' +
  'table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #d0d7de}' +
  'svg{display:block;max-width:100%;margin:1.5rem 0}code{overflow-wrap:anywhere}pre{overflow-x:auto;font-size:13px}' +
  '@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}td,th{border-color:#30363d}}'

/** `body` is HTML; `title` is text. */
export const htmlPage = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeText(title)}</title>
<style>${style}</style>
</head>
<body>
${body}
</body>
</html>
`

export const escapeText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

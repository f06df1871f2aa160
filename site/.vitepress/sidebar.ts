// The menu of the site out of docs/README.md: its headings and bold lines are groups, its links are pages.

type Page = { readonly text: string; readonly link: string }
type Group = { readonly text: string; readonly collapsed: boolean; readonly items: Page[] }

/** These sections of the index are lists of pages. The others are prose. */
const sections = new Set(['Guide', 'Examples', 'Reference', 'Internals'])

/** `../CONTRIBUTING.md` and `guide/x.md` of docs/README.md as addresses of the site. */
const addressOf = (link: string): string =>
  `/${link
    .replace(/^\.\.\//, '')
    .replace(/#.*$/, '')
    .replace(/README\.md$/, '')
    .replace(/\.md$/, '')}`

export function sidebarOf(index: string): Group[] {
  const groups: Group[] = []
  let section = ''
  for (const line of index.split('\n')) {
    const heading = /^## (.+)$/.exec(line)?.[1]
    const bold = /^\*\*(.+)\*\*$/.exec(line)?.[1]
    if (heading !== undefined) section = heading
    if (!sections.has(section)) continue
    const title = bold ?? heading
    if (title !== undefined) groups.push({ text: title, collapsed: section !== 'Guide', items: [] })
    if (!/^(- | {2}\[)/.test(line)) continue
    const [links = ''] = line.split(': ')
    for (const [, text = '', link = ''] of links.matchAll(/\[([^\]]+)\]\(([^)]+\.md)[^)]*\)/g)) {
      groups.at(-1)?.items.push({ text, link: addressOf(link) })
    }
  }
  return groups.filter(({ items }) => items.length > 0)
}

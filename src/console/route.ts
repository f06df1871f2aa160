// Which page is shown: the part of the address after `#`. `/docs` is a page of its own.

import { signal } from '@preact/signals'

const read = (): readonly string[] => {
  if (location.pathname === '/docs') return ['docs']
  const parts = location.hash
    .replace(/^#\/?/, '')
    .split('/')
    .filter((part) => part !== '')
  return parts.map((part) => {
    try {
      return decodeURIComponent(part)
    } catch {
      return part
    }
  })
}

/** `['models', 'digits']`; empty for the overview. */
export const route = signal<readonly string[]>(read())

globalThis.addEventListener('hashchange', () => {
  route.value = read()
  globalThis.scrollTo(0, 0)
  document.getElementById('page-title')?.focus()
})

export const linkTo = (...parts: string[]): string => `/console#/${parts.map(encodeURIComponent).join('/')}`

// Light or dark: as the system says, unless the visitor chose.

import { effect, signal } from '@preact/signals'

export type Scheme = 'system' | 'light' | 'dark'

const name = 'galatea-scheme'
const stored = localStorage.getItem(name)

export const scheme = signal<Scheme>(stored === 'light' || stored === 'dark' ? stored : 'system')

effect(() => {
  document.documentElement.dataset['scheme'] = scheme.value
  localStorage.setItem(name, scheme.value)
})

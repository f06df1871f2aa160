// A real browser, headless, with a profile of its own.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { chromium, type BrowserContext } from 'playwright-core'
import { requireTool } from '../tool.ts'

const flags = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export async function openBrowser(...more: string[]): Promise<{
  readonly context: BrowserContext
  readonly close: () => Promise<void>
}> {
  const executablePath = await requireTool('chromium')
  const profile = await mkdtemp(path.join(tmpdir(), 'galatea-browser-'))
  const context = await chromium.launchPersistentContext(profile, { executablePath, args: [...flags, ...more] })
  return {
    context,
    close: async () => {
      await context.close()
      await rm(profile, { recursive: true, force: true })
    },
  }
}

import { render, type JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { AccessPage } from './access-page.tsx'
import { isVisitorKnown, may, mayAll, whoAmI } from './caller-rights.ts'
import './console.css'
import { isControlPlane } from './console-kind.ts'
import { CostPage } from './cost-page.tsx'
import { DocsPage } from './docs-page.tsx'
import { FleetPage } from './fleet-page.tsx'
import { JobsPage } from './jobs-page.tsx'
import { connection, facts, followServer, lostReason } from './live-store.ts'
import { LogsPage } from './logs-page.tsx'
import { ModelPage } from './model-page.tsx'
import { ModelsPage } from './models-page.tsx'
import { OverviewPage } from './overview-page.tsx'
import { Confirmation, Notice } from './parts.tsx'
import { PlaygroundPage } from './playground-page.tsx'
import { RolloutsPage } from './rollouts-page.tsx'
import { linkTo, route } from './route.ts'
import { scheme, type Scheme } from './scheme.ts'
import { accessKey, keyRefusal, setAccessKey } from './server-api.ts'
import { TracesPage } from './traces-page.tsx'

type PageEntry = {
  readonly path: string
  readonly name: string
  readonly icon: string
  readonly page: (parts: readonly string[]) => JSX.Element
  /** Left out: everybody sees it. */
  readonly isShown?: () => boolean
}

const pagesOfServer: readonly PageEntry[] = [
  {
    path: '',
    name: 'Overview',
    icon: 'M3 13h8V3H3zm0 8h8v-6H3zm10 0h8V11h-8zm0-18v6h8V3z',
    page: () => <OverviewPage />,
  },
  {
    path: 'models',
    name: 'Models',
    icon: 'M12 2 3 7v10l9 5 9-5V7zm0 2.3L18.5 8 12 11.7 5.5 8zM5 9.7l6 3.4v6.2l-6-3.3zm8 9.6v-6.2l6-3.4v6.3z',
    page: ([, name]) => (name === undefined ? <ModelsPage /> : <ModelPage key={name} name={name} />),
  },
  {
    path: 'playground',
    name: 'Playground',
    icon: 'M8 5v14l11-7z',
    page: ([, name = '', version = '']) => <PlaygroundPage key={`${name}/${version}`} model={name} version={version} />,
    isShown: () => may('inference'),
  },
  {
    path: 'rollouts',
    name: 'Rollouts',
    icon: 'M3 17h4l4-8 4 5 3-4h3v2h-2l-4 5-4-5-3 7H3z',
    page: ([, name]) => <RolloutsPage name={name ?? ''} />,
    isShown: () => may('rollouts'),
  },
  {
    path: 'logs',
    name: 'Logs',
    icon: 'M4 5h16v2H4zm0 4h16v2H4zm0 4h10v2H4zm0 4h10v2H4z',
    page: () => <LogsPage />,
    isShown: () => mayAll('logging'),
  },
  {
    path: 'traces',
    name: 'Traces',
    icon: 'M3 4h10v3H3zm4 6h10v3H7zm4 6h10v3H11z',
    page: () => <TracesPage />,
    isShown: () => mayAll('trace'),
  },
  {
    path: 'jobs',
    name: 'Jobs',
    icon: 'M4 4h16v4H4zm0 6h16v4H4zm0 6h16v4H4zm2-10.8v1.6h5V5.2zm0 6v1.6h8v-1.6zm0 6v1.6h3v-1.6z',
    page: ([, id]) => <JobsPage id={id ?? ''} />,
    isShown: () => facts.value?.jobs === true && may('jobs'),
  },
  {
    path: 'access',
    name: 'Access',
    icon: 'M12 2 4 5v6c0 5 3.4 9.7 8 11 4.6-1.3 8-6 8-11V5zm0 5a2.5 2.5 0 0 1 1 4.8V16h-2v-4.2A2.5 2.5 0 0 1 12 7z',
    page: () => <AccessPage />,
    isShown: () => whoAmI.value?.access === true,
  },
  {
    path: 'cost',
    name: 'Cost',
    icon: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm1 14h-2v-1.2c-1.6-.3-2.6-1.3-2.7-2.8h1.8c.1.8.7 1.3 1.9 1.3s1.8-.5 1.8-1.2c0-.6-.4-1-1.7-1.3-2-.5-3.5-1-3.5-2.9 0-1.4 1-2.3 2.4-2.6V5h2v1.3c1.5.3 2.4 1.3 2.5 2.6h-1.8c-.1-.7-.6-1.2-1.7-1.2s-1.6.5-1.6 1.1c0 .6.5.9 1.8 1.2 2 .5 3.4 1.1 3.4 3 0 1.5-1.1 2.4-2.6 2.7z',
    page: () => <CostPage />,
    isShown: () => facts.value?.cost === true && mayAll('access'),
  },
  {
    path: 'fleet',
    name: 'Fleet',
    icon: 'M12 2a3 3 0 0 1 1 5.8V11h5a1 1 0 0 1 1 1v3.2a3 3 0 1 1-2 0V13h-4v2.2a3 3 0 1 1-2 0V13H7v2.2a3 3 0 1 1-2 0V12a1 1 0 0 1 1-1h5V7.8A3 3 0 0 1 12 2z',
    page: () => <FleetPage />,
    isShown: () => mayAll('statistics'),
  },
  {
    path: 'docs',
    name: 'API',
    icon: 'M8 6 2 12l6 6 1.4-1.4L4.8 12l4.6-4.6zm8 0-1.4 1.4 4.6 4.6-4.6 4.6L16 18l6-6z',
    page: () => <DocsPage />,
  },
]

const pages = isControlPlane ? pagesOfServer.filter(({ path }) => path === 'fleet') : pagesOfServer

function App(): JSX.Element {
  const [first = isControlPlane ? 'fleet' : ''] = route.value
  const entry = pages.find(({ path }) => path === first)
  useEffect(() => {
    document.title = `${entry?.name ?? 'Not found'} · Galatea`
  }, [entry])
  return (
    <>
      <a class="skip" href="#page-title" onClick={skip}>
        Skip to the page
      </a>
      <Side current={first} />
      <main id="page" class={connection.value === 'lost' ? 'stale' : ''}>
        <KeyDialog />
        {connection.value === 'lost' ? (
          <Notice tone="bad">
            <b>The connection to the server is lost.</b> What you see is old. The console tries again every two seconds.{' '}
            <small>{lostReason.value}</small>
          </Notice>
        ) : null}
        {keyRefusal.value !== '' || !isVisitorKnown() ? null : <Page entry={entry} />}
      </main>
      <Confirmation />
    </>
  )
}

function Page({ entry }: { readonly entry: PageEntry | undefined }): JSX.Element {
  if (entry === undefined) return <NotFound />
  return mayShow(entry) ? entry.page(route.value) : <NotShown name={entry.name} />
}

const mayShow = ({ isShown }: PageEntry): boolean => isShown?.() ?? true

const NotShown = ({ name }: { readonly name: string }): JSX.Element => (
  <>
    <h1 id="page-title" tabIndex={-1}>
      {name}
    </h1>
    <p>The server does not offer this page, or not to you.</p>
  </>
)

function skip(event: Event): void {
  event.preventDefault()
  document.getElementById('page-title')?.focus()
}

const NotFound = (): JSX.Element => (
  <>
    <h1 id="page-title" tabIndex={-1}>
      There is no such page
    </h1>
    <p>
      <a href={linkTo()}>To the overview</a>
    </p>
  </>
)

function Side({ current }: { readonly current: string }): JSX.Element {
  const links = useRef<HTMLUListElement>(null)
  useEffect(() => {
    // On narrow screens the links are a row that scrolls.
    links.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [current])
  return (
    <aside class="side">
      <a class="brand" href={linkTo()}>
        <svg viewBox="0 0 24 24" width="26" height="26" aria-hidden="true">
          <path d="M12 1.8 21 7v10l-9 5.2L3 17V7z" class="brand-shape" />
          <path d="M15.8 9.3A4.6 4.6 0 1 0 16.6 13H12" class="brand-line" />
        </svg>
        Galatea
      </a>
      <nav aria-label="Pages">
        <ul ref={links}>
          {pages.filter(mayShow).map(({ path, name, icon }) => (
            <li key={path}>
              <a
                href={path === 'docs' ? '/docs' : path === '' ? linkTo() : linkTo(path)}
                aria-current={path === current ? 'page' : undefined}
              >
                <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
                  <path d={icon} />
                </svg>
                {name}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      <div class="side-foot">
        <SchemeSwitch />
        {accessKey.value === '' ? null : (
          <button type="button" class="quiet small" onClick={() => setAccessKey('')}>
            Forget the key
          </button>
        )}
        <p class="soft">
          {facts.value?.name ?? 'galatea'} {facts.value?.version ?? ''}
        </p>
      </div>
    </aside>
  )
}

const schemes: readonly Scheme[] = ['system', 'light', 'dark']

const SchemeSwitch = (): JSX.Element => (
  <label class="scheme">
    <span class="soft">Colours</span>
    <select
      value={scheme.value}
      onChange={(event) => {
        scheme.value = event.currentTarget.value as Scheme
      }}
    >
      {schemes.map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  </label>
)

function KeyDialog(): JSX.Element | null {
  const [typed, setTyped] = useState('')
  if (keyRefusal.value === '') return null
  const send = (event: Event): void => {
    event.preventDefault()
    setAccessKey(typed.trim())
    setTyped('')
    globalThis.dispatchEvent(new HashChangeEvent('hashchange'))
  }
  return (
    <form class="card key-form" onSubmit={send}>
      <h1 id="page-title" tabIndex={-1}>
        Who are you?
      </h1>
      <label class="field">
        <span>{keyRefusal.value}</span>
        <input
          type="password"
          name="key"
          autocomplete="off"
          aria-describedby="key-note"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <p id="key-note" class="soft">
        The key stays in this tab and is sent in one header. It is gone when the tab is closed.
      </p>
      <button type="submit" class="main" disabled={typed.trim() === ''}>
        Use the key
      </button>
    </form>
  )
}

const root = document.getElementById('console')
if (root !== null) render(<App />, root)
// The control plane has no models to follow.
if (!isControlPlane) void followServer()

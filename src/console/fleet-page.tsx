import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { may } from './caller-rights.ts'
import { isControlPlane } from './console-kind.ts'
import { countText, durationText, msText } from './figure-text.ts'
import { connection, lostReason } from './live-store.ts'
import { Badge, Card, Code, Empty, Notice, PageHead, Table, useEvery, useLoaded } from './parts.tsx'
import { linkTo } from './route.ts'
import { rolloutIsOver, rolloutTone, rolloutWords, versionsText, type Summary } from './rollout-words.ts'
import { call, messageOf, ServerRefusal } from './server-api.ts'

type FleetServer = {
  readonly url: string
  /** This is the server that answers. */
  readonly this?: boolean
  readonly state: string
  readonly reason: string
  readonly pressure: number | null
  readonly models: readonly { readonly name: string; readonly versions: readonly string[] }[]
  readonly models_left_out?: number
  /** What a server of a shared store says. */
  readonly version?: string
  readonly started?: string
  readonly seen_seconds_ago?: number
  /** What the control plane of Envoy knows. */
  readonly serving?: boolean
  readonly picked_in_flight?: number
  readonly picked_latency_ms?: number
}

type FleetModel = {
  readonly name: string
  readonly differs: boolean
  readonly servers: number
  readonly versions: readonly { readonly version: string; readonly servers: readonly string[] }[]
}

type Fleet = {
  readonly servers: readonly FleetServer[]
  readonly models: readonly FleetModel[]
  readonly store?: { readonly at: string; readonly away: boolean } | null
  readonly envoys?: readonly {
    readonly node: string
    readonly address: string
    readonly since: string
    readonly problem: string
  }[]
}

type Tone = 'good' | 'warn' | 'bad' | 'calm' | 'busy'

const tones: Readonly<Record<string, Tone>> = {
  ready: 'good',
  'not ready': 'warn',
  silent: 'bad',
  unreachable: 'bad',
}

/** The control plane has no other feed that would tell whether it is there. */
async function loadFleet(): Promise<Fleet> {
  try {
    const fleet = (await call('/v2/fleet')) as Fleet
    if (isControlPlane) connection.value = 'open'
    return fleet
  } catch (reason) {
    if (isControlPlane && !(reason instanceof ServerRefusal)) {
      connection.value = 'lost'
      lostReason.value = messageOf(reason)
    }
    throw reason
  }
}

/** The servers that this one knows of. */
export function FleetPage(): JSX.Element {
  const found = useLoaded('fleet', loadFleet)
  useEvery(2000, found.reload)
  const fleet = found.value
  const isAlone = fleet !== null && !isControlPlane && (fleet.store ?? null) === null
  return (
    <>
      <PageHead title="Fleet">
        {isControlPlane
          ? 'The servers that this control plane steers Envoy to.'
          : 'The servers that share a store with this one.'}
      </PageHead>
      {found.error === '' || connection.value === 'lost' ? null : <Notice tone="bad">{found.error}</Notice>}
      {fleet?.store?.away === true ? (
        <Notice tone="bad">
          <b>The store at {fleet.store.at} does not answer.</b> Only this server is shown. The others go on serving.
        </Notice>
      ) : null}
      {isAlone ? <Alone /> : null}
      {fleet === null ? null : (
        <>
          {isAlone ? null : <FleetTiles fleet={fleet} />}
          <ServerTable servers={fleet.servers} />
          {isAlone ? null : <ModelTable fleet={fleet} />}
          {isControlPlane ? <Envoys envoys={fleet.envoys ?? []} /> : null}
          {!isAlone && !isControlPlane && may('rollouts') ? <SharedRollouts /> : null}
        </>
      )}
    </>
  )
}

const Alone = (): JSX.Element => (
  <Card title="This server stands alone">
    <p class="soft spaced">
      Servers that share a Redis show here and move their rollouts together. Start each of them with the same store:
    </p>
    <Code>galatea --rollout-store=redis://HOST:6379 --model-repository=…</Code>
    <p class="soft spaced">
      To put one address in front of many servers, run the control plane of Envoy. It has a page like this one, at port
      18001:
    </p>
    <Code>galatea fleet --upstream http://A:8000,http://B:8000</Code>
  </Card>
)

const pressureTone = (pressure: number): Tone => (pressure > 1 ? 'bad' : pressure > 0.7 ? 'warn' : 'good')

function FleetTiles({ fleet }: { readonly fleet: Fleet }): JSX.Element {
  const { servers, models } = fleet
  const ready = servers.filter(({ state }) => state === 'ready').length
  const known = servers.flatMap(({ pressure }) => pressure ?? [])
  const differing = models.filter(({ differs }) => differs).length
  const versions = new Set(servers.flatMap(({ version = '' }) => (version === '' ? [] : [version])))
  return (
    <div class="tiles">
      <Tile name="Servers ready" value={`${ready} of ${servers.length}`} isBad={ready < servers.length} />
      <Tile name="Highest pressure" value={known.length === 0 ? '–' : Math.max(...known).toFixed(2)}>
        0.7 is a good load, above 1 is too much
      </Tile>
      <Tile name="Models" value={countText(models.length)}>
        {differing === 0 ? 'the same on every server' : `${differing} not the same on every server`}
      </Tile>
      {isControlPlane ? (
        <Tile name="Envoys" value={countText(fleet.envoys?.length ?? 0)} />
      ) : (
        <Tile name="Versions of Galatea" value={countText(versions.size)}>
          {[...versions].join(', ')}
        </Tile>
      )}
    </div>
  )
}

const Tile = ({
  name,
  value,
  isBad = false,
  children,
}: {
  readonly name: string
  readonly value: string
  readonly isBad?: boolean
  readonly children?: string
}): JSX.Element => (
  <div class="tile">
    <span class="tile-name">{name}</span>
    <span class={isBad ? 'figure bad' : 'figure'}>{value}</span>
    {children === undefined ? null : <span class="soft">{children}</span>}
  </div>
)

/** Nobody but `http` and `https` is linked to: what other servers say of themselves is text. */
const ServerName = ({ server }: { readonly server: FleetServer }): JSX.Element =>
  server.this === true ? (
    <>
      {server.url} <span class="soft">this server</span>
    </>
  ) : /^https?:\/\//.test(server.url) ? (
    <a href={`${server.url}/console`} rel="noreferrer">
      {server.url}
    </a>
  ) : (
    <>{server.url}</>
  )

function ServerTable({ servers }: { readonly servers: readonly FleetServer[] }): JSX.Element {
  const last = isControlPlane ? ['#under way', '#latency'] : ['version', '#runs for', '#heard']
  const secondsSince = (at: string): number => Math.max(0, (Date.now() - Date.parse(at)) / 1000)
  return (
    <Card title="Servers">
      {servers.length === 0 ? (
        <Empty>No server is known yet.</Empty>
      ) : (
        <Table label="Servers" head={['server', 'state', '#pressure', '#models', ...last]}>
          {servers.map((server) => (
            <tr key={server.url}>
              <th scope="row">
                <ServerName server={server} />
                {server.reason === '' ? null : <div class="reason">{server.reason}</div>}
              </th>
              <td>
                <Badge tone={tones[server.state] ?? 'calm'}>{server.state}</Badge>
              </td>
              <td class="number">
                <Pressure value={server.pressure} />
              </td>
              <td class="number">{countText(server.models.length + (server.models_left_out ?? 0))}</td>
              {isControlPlane ? (
                <>
                  <td class="number">{countText(server.picked_in_flight)}</td>
                  <td class="number">{msText(server.picked_latency_ms)}</td>
                </>
              ) : (
                <>
                  <td>{server.version ?? '–'}</td>
                  <td class="number">
                    {server.started === undefined ? '–' : durationText(secondsSince(server.started))}
                  </td>
                  <td class="number">
                    {server.this === true ? 'now' : `${durationText(server.seen_seconds_ago ?? 0)} ago`}
                  </td>
                </>
              )}
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}

const Pressure = ({ value }: { readonly value: number | null }): JSX.Element =>
  value === null ? (
    <>–</>
  ) : (
    <span class="meter">
      <span class={`meter-bar ${pressureTone(value)}`} aria-hidden="true">
        <svg viewBox="0 0 100 6" preserveAspectRatio="none">
          <rect width={Math.min(100, value * 100)} height="6" />
        </svg>
      </span>
      {value.toFixed(2)}
    </span>
  )

const mostShown = 200

function ModelTable({ fleet }: { readonly fleet: Fleet }): JSX.Element {
  const [isOnlyDiffering, setOnlyDiffering] = useState(false)
  const answering = fleet.servers.filter(({ state, serving }) => serving ?? state !== 'silent')
  const shown = fleet.models.filter(({ differs }) => differs || !isOnlyDiffering)
  return (
    <Card
      title="Models of the fleet"
      aside={
        <label class="inline">
          <input
            type="checkbox"
            checked={isOnlyDiffering}
            onChange={(event) => setOnlyDiffering(event.currentTarget.checked)}
          />
          only those that differ
        </label>
      }
    >
      {shown.length === 0 ? (
        <Empty>{isOnlyDiffering ? 'Every server has the same models and versions.' : 'No model is ready.'}</Empty>
      ) : (
        <Table label="Models of the fleet" head={['model', 'on the servers', 'versions']}>
          {shown.slice(0, mostShown).map((model) => (
            <tr key={model.name}>
              <th scope="row">
                {isControlPlane ? model.name : <a href={linkTo('models', model.name)}>{model.name}</a>}
              </th>
              <td>{model.differs ? <Badge tone="warn">differs</Badge> : <Badge tone="good">same everywhere</Badge>}</td>
              <td>
                <ul class="version-list">
                  {model.versions.map(({ version, servers }) => (
                    <li key={version}>
                      <b>{version}</b> <span class="soft">{holdersText(servers, answering)}</span>
                    </li>
                  ))}
                </ul>
              </td>
            </tr>
          ))}
        </Table>
      )}
      {shown.length > mostShown ? (
        <p class="soft spaced">
          {countText(shown.length - mostShown)} more are not shown. The answer of /v2/fleet has all of them.
        </p>
      ) : null}
    </Card>
  )
}

function holdersText(holders: readonly string[], servers: readonly FleetServer[]): string {
  if (holders.length >= servers.length) return `on all ${servers.length}`
  const missing = servers.filter(({ url }) => !holders.includes(url)).map(({ url }) => url)
  const isShort = missing.length <= holders.length
  const named = (isShort ? missing : holders).slice(0, 3).join(', ')
  const more = (isShort ? missing : holders).length > 3 ? ' and others' : ''
  return `on ${holders.length} of ${servers.length}, ${isShort ? 'not ' : ''}on ${named}${more}`
}

const Envoys = ({ envoys }: { readonly envoys: NonNullable<Fleet['envoys']> }): JSX.Element => (
  <Card title="Envoys">
    {envoys.length === 0 ? (
      <Empty>
        No Envoy is connected. <code>galatea fleet --bootstrap</code> prints the configuration that starts one.
      </Empty>
    ) : (
      <Table label="Envoys" head={['node', 'address', '#connected for', 'what it refused']}>
        {envoys.map(({ node, address, since, problem }) => (
          <tr key={address}>
            <th scope="row">{node}</th>
            <td>{address}</td>
            <td class="number">{durationText(Math.max(0, (Date.now() - Date.parse(since)) / 1000))}</td>
            <td class="why">{problem === '' ? 'nothing' : problem}</td>
          </tr>
        ))}
      </Table>
    )}
  </Card>
)

function SharedRollouts(): JSX.Element {
  const found = useLoaded('fleet rollouts', async () => (await call('/v2/rollouts')) as readonly Summary[])
  useEvery(2000, found.reload)
  const open = (found.value ?? []).filter(({ state }) => !rolloutIsOver(state))
  return (
    <Card title="Rollouts under way" aside={<a href={linkTo('rollouts')}>All rollouts</a>}>
      {open.length === 0 ? (
        <Empty>No rollout is under way.</Empty>
      ) : (
        <Table label="Rollouts under way" head={['rollout', 'model', 'state', 'versions', '#requests']}>
          {open.map((rollout) => (
            <tr key={rollout.name}>
              <th scope="row">
                <a href={linkTo('rollouts', rollout.name)}>{rollout.name}</a>
              </th>
              <td>{rollout.model}</td>
              <td>
                <Badge tone={rolloutTone(rollout.state)}>{rolloutWords(rollout.state)}</Badge>
              </td>
              <td>{versionsText(rollout)}</td>
              <td class="number">{rollout.kind === 'rollout' ? `${rollout.weight} %` : '–'}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}

import type { JSX } from 'preact'
import { KeysCard } from './access-keys.tsx'
import { mayAll, whoAmI, type Limit, type Me } from './caller-rights.ts'
import { countText, rateText } from './figure-text.ts'
import { Card, Empty, PageHead, Table, useEvery, useLoaded } from './parts.tsx'
import { call } from './server-api.ts'

type Usage = {
  readonly tenant: string
  readonly running: number
  readonly refused: number
  readonly requests: number
  readonly inferences: number
  readonly tokens: number
  readonly compute_seconds: number
  readonly limits: readonly Limit[]
}

export function AccessPage(): JSX.Element {
  const me = whoAmI.value
  return (
    <>
      <PageHead title="Access">Who you are to this server, what you may do, and who else may.</PageHead>
      {me === null ? <Empty>The server does not say who you are.</Empty> : <You me={me} />}
      {me !== null && !me.access ? null : (
        <>
          {mayAll('access') ? <KeysCard /> : null}
          <UseCard />
        </>
      )}
    </>
  )
}

const You = ({ me }: { readonly me: Me }): JSX.Element => (
  <div class="columns even">
    <Card title="You">
      <dl class="facts">
        <Fact name="name" value={me.principal === '' ? me.kind : me.principal} />
        <Fact name="credential" value={me.kind} />
        {me.tenant === '' ? null : <Fact name="tenant" value={me.tenant} />}
        {me.groups.length === 0 ? null : <Fact name="groups" value={me.groups.join(', ')} />}
      </dl>
      {me.limits.length === 0 ? null : <Limits limits={me.limits} />}
    </Card>
    <Card title="You may">
      {me.access ? null : <p class="soft">The server has no access control: everybody may do everything.</p>}
      <ul class="chips">
        {me.allowed.all_models.map((action) => (
          <li key={action}>{action}</li>
        ))}
        {me.allowed.some_models.map((action) => (
          <li key={action}>
            {action} <span class="soft">of some models</span>
          </li>
        ))}
      </ul>
    </Card>
  </div>
)

const Fact = ({ name, value }: { readonly name: string; readonly value: string }): JSX.Element => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
)

const limitText = ({ unit, amount, period }: Limit): string =>
  `${countText(amount)} ${unit.replaceAll('_', ' ')}${period === undefined ? ' at a time' : ` per ${period}`}`

const Limits = ({ limits }: { readonly limits: readonly Limit[] }): JSX.Element => (
  <ul class="limits">
    {limits.map((limit) => (
      <li key={limitText(limit)}>
        <span>{limitText(limit)}</span>
        <progress max={limit.amount} value={limit.amount - limit.left} aria-label={`Used of ${limitText(limit)}`} />
        <span class="soft">{countText(Math.floor(limit.left))} left</span>
      </li>
    ))}
  </ul>
)

function UseCard(): JSX.Element {
  const found = useLoaded(
    'usage',
    async () => (await call('/v2/access/usage')) as { readonly tenants: readonly Usage[] },
  )
  useEvery(3000, found.reload)
  const tenants = found.value?.tenants ?? []
  return (
    <Card title="Use since the start of the server">
      {tenants.length === 0 ? (
        <Empty>{found.error === '' ? 'No tenant has used anything yet.' : found.error}</Empty>
      ) : (
        <Table
          label="Use by tenant"
          head={['tenant', '#requests', '#inferences', '#tokens', '#compute', '#running', '#refused', 'limits']}
        >
          {tenants.map((one) => (
            <tr key={one.tenant}>
              <th scope="row">{one.tenant === '' ? 'no tenant' : one.tenant}</th>
              <td class="number">{countText(one.requests)}</td>
              <td class="number">{countText(one.inferences)}</td>
              <td class="number">{countText(one.tokens)}</td>
              <td class="number">{rateText(one.compute_seconds)} s</td>
              <td class="number">{countText(one.running)}</td>
              <td class="number">{countText(one.refused)}</td>
              <td>{one.limits.length === 0 ? 'none' : <Limits limits={one.limits} />}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  )
}

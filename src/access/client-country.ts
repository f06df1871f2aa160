// Which country a call comes from: as a proxy says in a header, or by the address of the client.

import type { BlockList } from 'node:net'
import type { CallFacts } from './call-facts.ts'
import { callerAddress } from './caller-address.ts'

type CountrySettings = {
  /** In lower case; '' for none. */
  readonly header: string
  /** The country of an address; null: no database. */
  readonly lookUp: ((address: string) => string) | null
  /** Proxies whose X-Forwarded-For is believed. */
  readonly trusted: BlockList
}

/** Two capital letters; '' where it is not known. */
export function clientCountry({ header, lookUp, trusted }: CountrySettings): (facts: CallFacts) => string {
  return (facts) => {
    const told = header === '' ? '' : countryCode(facts.header(header) ?? '')
    if (told !== '' || lookUp === null) return told
    return countryCode(lookUp(callerAddress(facts, trusted)))
  }
}

const countryCode = (text: string): string => (/^[A-Za-z]{2}$/.test(text) ? text.toUpperCase() : '')

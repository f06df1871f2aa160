import type { Action } from './action.ts'
import type { CallFacts } from './call-facts.ts'

/** The name and the addresses in a client's certificate, which the transport has verified. */
export type ClientCertificate = {
  /** `CN=batch,O=acme` */
  readonly subject: string
  readonly uris: readonly string[]
  readonly dnsNames: readonly string[]
}

/** What an Admission may ask about a call, beside what a Chooser may. */
export interface AdmissionFacts extends CallFacts {
  readonly action: Action
  /** The model that the call is for; '' where there is none, and where only the body names it. */
  readonly model: string
  /** True: the call is about the server as a whole, and a right for some models is not enough. */
  readonly isForAll: boolean
  /** True: the console shows this, and the right `console` is enough where the action is not denied. */
  readonly isOfConsole: boolean
  /** True: the call asks about the caller itself, and whoever is known may ask. */
  readonly isForSelf: boolean
  /** The same object for calls of one connection that have the same head: an Admission may remember its verdict by it. */
  readonly head: object
  /** Bytes of the body that the client announced; 0 where that is not known. */
  readonly bodyBytes: number
  /** True: each message of the call counts as a request, and the call itself does not. */
  readonly isStream: boolean
  /** Null: the client showed none. */
  certificate(): ClientCertificate | null
}

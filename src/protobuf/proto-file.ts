// The text of a .proto file → tables of its messages, enums and services. It reads what the files of the folder proto/ have, and
// refuses what it does not know: nothing is left out in silence.

import { readFileSync } from 'node:fs'
import type { WireFile } from './message-schema.ts'

type Field = { readonly before: string; readonly type: string; readonly after: string }

/** Reads a file of the folder proto/ of this package. */
export const readProtoFile = (name: string): WireFile =>
  parseProtoFile(name, readFileSync(new URL(`../../proto/${name}`, import.meta.url), 'utf8'))

/** `name`: as other files import it. Throws an Error at the first word that it cannot read. */
export const parseProtoFile = (name: string, text: string): WireFile => new ProtoParser(name, text).read()

class ProtoParser {
  readonly #name: string
  readonly #words: readonly string[]
  #at = 0
  #package = ''
  readonly #dependencies: string[] = []
  readonly #messages = new Map<string, Field[]>()
  readonly #enums: Record<string, Record<string, number>> = {}
  readonly #services: Record<string, Record<string, readonly [string, string]>> = {}

  constructor(name: string, text: string) {
    this.#name = name
    // Each word, each text in quotes, and every other sign by itself.
    this.#words = text.replaceAll(/\/\/.*|\/\*[^]*?\*\//g, '').match(/[\w.]+|"[^"\n]*"|\S/g) ?? []
  }

  read(): WireFile {
    for (const word of ['syntax', '=', '"proto3"', ';']) this.#expect(word)
    while (this.#at < this.#words.length) {
      if (this.#takes('package')) this.#package = this.#statement(/^[\w.]+$/)
      else if (this.#takes('import')) this.#dependencies.push(this.#statement(/^".+"$/).slice(1, -1))
      else if (this.#takes('service')) this.#readService()
      else if (!this.#readType('')) throw this.#unexpected()
    }
    const messages: Record<string, WireFile['messages'][string]> = {}
    for (const [name, fields] of this.#messages) {
      const rows = fields.map(({ before, type, after }) => `${before}${this.#nameOf(type, name)}${after}`)
      messages[name] = rows as unknown as WireFile['messages'][string]
    }
    const [enums, services] = [this.#enums, this.#services]
    return { name: this.#name, package: this.#package, dependencies: this.#dependencies, messages, enums, services }
  }

  /** False: no message and no enum begins here. */
  #readType(outer: string): boolean {
    if (this.#takes('message')) this.#readMessage(outer)
    else if (this.#takes('enum')) this.#readEnum(outer)
    else return false
    return true
  }

  #readMessage(outer: string): void {
    const name = outer + this.#word(/^\w+$/)
    const fields: Field[] = []
    this.#messages.set(name, fields)
    this.#readBlock(() => {
      if (this.#readType(`${name}.`)) return
      if (!this.#takes('oneof')) {
        fields.push(this.#readField(this.#takes('repeated') ? 'repeated ' : ''))
        return
      }
      const oneof = this.#word(/^\w+$/)
      this.#readBlock(() => fields.push(this.#readField(`oneof ${oneof} `)))
    })
  }

  #readField(label: string): Field {
    let before = label
    let after = ''
    if (label === '' && this.#takes('map')) {
      this.#expect('<')
      before = `map<${this.#word(/^\w+$/)}, `
      this.#expect(',')
      after = '>'
    }
    const type = this.#word(/^\.?[a-zA-Z_][\w.]*$/)
    if (after !== '') this.#expect('>')
    const name = this.#word(/^[a-zA-Z_]\w*$/)
    this.#expect('=')
    return { before, type, after: `${after} ${name} = ${this.#statement(/^[1-9]\d*$/)}` }
  }

  #readEnum(outer: string): void {
    const numbers: Record<string, number> = {}
    this.#enums[outer + this.#word(/^\w+$/)] = numbers
    this.#readBlock(() => {
      const name = this.#word(/^[a-zA-Z_]\w*$/)
      this.#expect('=')
      numbers[name] = Number(this.#statement(/^\d+$/))
    })
  }

  #readService(): void {
    const rpcs: Record<string, readonly [string, string]> = {}
    this.#services[this.#word(/^\w+$/)] = rpcs
    this.#readBlock(() => {
      this.#expect('rpc')
      const name = this.#word(/^\w+$/)
      const request = this.#readRpcType()
      this.#expect('returns')
      rpcs[name] = [request, this.#readRpcType()]
      if (!this.#takes(';')) this.#readBlock(() => this.#expect('}'))
    })
  }

  #readRpcType(): string {
    this.#expect('(')
    const stream = this.#takes('stream') ? 'stream ' : ''
    const type = this.#nameOf(this.#word(/^[\w.]+$/), '')
    this.#expect(')')
    return `${stream}${type}`
  }

  #readBlock(readOne: () => void): void {
    this.#expect('{')
    while (!this.#takes('}')) readOne()
  }

  /** A type without its package, which has no capital letters; one inside of a message with the names of those around it. */
  #nameOf(type: string, scope: string): string {
    const name = type.replace(/^\.?(?:[a-z_][a-z0-9_]*\.)*(?=[A-Z])/, '')
    for (let outer = scope; outer !== ''; outer = outer.slice(0, Math.max(outer.lastIndexOf('.'), 0))) {
      const inner = `${outer}.${name}`
      if (this.#messages.has(inner) || inner in this.#enums) return inner
    }
    return name
  }

  /** A word with the semicolon behind it. */
  #statement(form: RegExp): string {
    const word = this.#word(form)
    this.#expect(';')
    return word
  }

  #word(form: RegExp): string {
    const word = this.#words[this.#at] ?? ''
    if (!form.test(word)) throw this.#unexpected()
    this.#at++
    return word
  }

  #takes(word: string): boolean {
    const isThere = this.#words[this.#at] === word
    if (isThere) this.#at++
    return isThere
  }

  #expect(word: string): void {
    if (!this.#takes(word)) throw this.#unexpected()
  }

  #unexpected(): Error {
    const word = this.#words[this.#at]
    return new Error(`proto/${this.#name} has ${word === undefined ? 'no end' : `'${word}' as word ${this.#at + 1}`}`)
  }
}

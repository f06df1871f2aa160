// One object of each kind that requests are made of, kept while V8 collects its whole heap in a quiet moment. V8 forgets the
// shape of objects when the last of them is gone, and drops all code that it compiled for the shape. The next requests then
// cost twice as much, for thousands of them (`npm run bench -- lone-request`).

type Maker = () => object

export class Specimens {
  /** The last small request of each protocol, with what was made for it. */
  http: object | null = null
  grpc: object | null = null
  readonly #makers: Maker[] = []

  /** `make` makes an object as requests do. It is called shortly before a collection. */
  add(make: Maker): void {
    this.#makers.push(make)
  }

  /** Calls `collect` while there is an object of each kind. */
  during(collect: () => void): void {
    const made = this.#makers.map((make) => make())
    collect()
    made.length = 0
  }
}

/** There is one heap, so there is one collection of them. */
export const specimens = new Specimens()

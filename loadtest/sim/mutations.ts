/** A planted fault: the product's text is changed on its way into the simulation. */
export interface Mutation {
  readonly name: string
  readonly about: string
  /** Of the product's TypeScript, or of a script. */
  readonly file: string
  /** Stands there exactly once. */
  readonly find: string
  readonly replace: string
  /** It must be caught within so many seeds, from the first. */
  readonly seeds: number
}

export const mutations: readonly Mutation[] = []

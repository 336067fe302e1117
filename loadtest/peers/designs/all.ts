import { a1 } from './a1.ts'
import type { Design } from './design.ts'
import { flashSale } from './flashSale.ts'
import { lock } from './lock.ts'
import { postgresOnly } from './postgresOnly.ts'
import { redisThenPublish } from './redisThenPublish.ts'

export const designs: readonly Design[] = [a1, flashSale, postgresOnly, lock, redisThenPublish]

/** @throws when there is none of this name. */
export function designOf(name: string): Design {
  const found = designs.find((design) => design.name === name)
  if (found === undefined) throw new Error(`No design ${name}`)
  return found
}

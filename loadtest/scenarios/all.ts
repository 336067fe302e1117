import { openingFlood } from './matrix/openingFlood.ts'
import type { Scenario } from './scenario.ts'

/** The load matrix of A4 §15.2, in its order. */
export const scenarios: readonly Scenario[] = [openingFlood]

import type { ProblemCode, ProblemExtras } from '../schema/problem.ts'

/**
 * A request is not done, and its caller is told why: the one exception that reaches callers. Any other exception
 * is a fault of ours and shows as INTERNAL, or as UNAVAILABLE where a part is away.
 */
export class Refused extends Error {
  readonly code: ProblemCode
  readonly extras: ProblemExtras | undefined
  /** `extras.detail` replaces the code's own sentence; nothing in extras may be internal. */
  constructor(code: ProblemCode, extras?: ProblemExtras) {
    super(extras?.detail ?? code)
    this.name = 'Refused'
    this.code = code
    this.extras = extras
  }
}

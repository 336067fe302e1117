import { type Stack, type StackOptions, startStack } from '../../stack/stack.ts'

const attempts = 3

/**
 * Starts a stack for a run of minutes. A port that was free when it was chosen can be taken by a neighbour before its
 * server listens: that costs another attempt, not the run.
 */
export async function startPatiently(options: StackOptions): Promise<Stack> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await startStack(options)
    } catch (error) {
      if (attempt === attempts || !/ADDRESS_?IN_?USE|EADDRINUSE|port/i.test((error as Error).message))
        throw error
    }
  }
}

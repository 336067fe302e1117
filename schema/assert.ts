/** Ends an exhaustive switch: a new case that nobody handled is a compile error, and at run time an exception. */
export function assertNever(value: never, what = 'value'): never {
  throw new Error(`unexpected ${what}: ${JSON.stringify(value)}`)
}

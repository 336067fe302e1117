/**
 * Preloaded into a process that a bench measures (`--import`, with --expose-gc and an IPC channel): answers any
 * message with its memory after two full collections, so that garbage counts for nobody.
 */
process.on('message', () => {
  globalThis.gc?.()
  globalThis.gc?.()
  process.send?.(process.memoryUsage())
})
// The channel must not keep the process that it looks into.
process.channel?.unref()

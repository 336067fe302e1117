/** Bounds how much is in work at once. */
export interface Slots {
  /** Resolves when there is room, with the call that makes room again. */
  take(): Promise<() => void>
  /** Resolves when there is room; takes nothing. */
  free(): Promise<void>
  /** Resolves when nothing is in work. */
  idle(): Promise<void>
  /** What is in work beyond a smaller size is finished. */
  resize(size: number): void
}

export function makeSlots(initial: number): Slots {
  let size = initial
  let taken = 0
  const waiting: { ready(): boolean; go(): void }[] = []

  function admit(): void {
    while (waiting.length > 0 && waiting[0]!.ready()) waiting.shift()!.go()
  }
  const room = () => taken < size
  const when = (ready: () => boolean, go: () => void) => {
    waiting.push({ ready, go })
    admit()
  }
  const release = () => {
    taken -= 1
    admit()
  }
  return {
    take: () =>
      new Promise((resolve) =>
        when(room, () => {
          taken += 1
          resolve(release)
        }),
      ),
    free: () => new Promise((resolve) => when(room, resolve)),
    resize(wanted) {
      size = wanted
      admit()
    },
    idle: () => new Promise((resolve) => when(() => taken === 0, resolve)),
  }
}

/** Parts that differ by one at most and add up to the whole. */
export function splitExactly(whole: number, parts: number): number[] {
  const small = Math.floor(whole / parts)
  const larger = whole - small * parts
  return Array.from({ length: parts }, (_, part) => (part < larger ? small + 1 : small))
}

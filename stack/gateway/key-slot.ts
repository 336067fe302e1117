/** Slot of a key in a Redis Cluster: CRC-16/XMODEM of its hash tag, or of the whole key, mod 16,384. */
export function keySlot(key: Buffer): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open + 1)
  const tag = close > open + 1 ? key.subarray(open + 1, close) : key
  let crc = 0
  for (const byte of tag) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++)
      crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  }
  return crc % 16_384
}

/**
 * The auditor's own reading of what stands in Redis, written from DESIGN §4 and the layout of a record
 * (time 8, random 13, key 9, params 4, token 9, state 1). It shares no code with the product, so that a fault
 * of the product's codecs can't hide itself.
 */
export interface AuditedRecord {
  userId: string
  /** Lower-case UUID with dashes. */
  requestId: string
  key: string
  token: string
  state: string
}

const digits = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

function bitsOf(text: string): string {
  let bits = ''
  for (const digit of text) {
    const value = digits.indexOf(digit)
    if (value < 0) throw new Error(`not a record: ${text}`)
    bits += value.toString(2).padStart(6, '0')
  }
  return bits
}

/** 48 bits of time, then the version 7, 12 random bits, the variant 10, 62 random bits. */
function uuidOf(time: string, random: string): string {
  const drawn = bitsOf(random).slice(4)
  const bits = `${bitsOf(time)}0111${drawn.slice(0, 12)}10${drawn.slice(12)}`
  const hex = BigInt(`0b${bits}`).toString(16).padStart(32, '0')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

export function readRecords(userId: string, field: string): AuditedRecord[] {
  const records: AuditedRecord[] = []
  for (let at = 0; at < field.length; at += 44) {
    const record = field.slice(at, at + 44)
    records.push({
      userId,
      requestId: uuidOf(record.slice(0, 8), record.slice(8, 21)),
      key: record.slice(21, 30),
      token: record.slice(34, 43),
      state: record.slice(43),
    })
  }
  return records
}

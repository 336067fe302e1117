import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { PeerRecord } from '../record/record.ts'
import { mergeInto, writeJson } from '../record/store.ts'
import { designs } from './designs/all.ts'
import { runPeers } from './run.ts'
import { seeded } from './seeded.ts'

const help = `npm run loadtest -- peers [NAME…] [--json FILE]

The same crowd, kills and auditor for ours and for the designs that others use. First the throughput of each, while
there is stock; then campaigns in whose middle a process is killed at a random instant and started again a second
later: the one that answers claims, the one that writes coupons, and the store, as by a power cut that takes the last
second of Redis' file. Afterwards: what clients were told beside what exists.

  oversold  coupons beyond the quota        doubled   users with more than one coupon
  lost      told yes, and there is none     stranded  stock that is gone without a coupon

${designs.map(({ name, about }) => `  ${name.padEnd(20)} ${about}`).join('\n')}
  ${'tidegate'.padEnd(20)} ours, the whole stack

  --kills N     kills of the answering process (5); consumers are killed 2 times, stores once; fewer where time runs out
  --seconds S   of each throughput measurement (3)
  --seed N      of the kills' instants (any)
  --json FILE   writes the records
  --into FILE   merges them into the record of a run

Exit code 1 when ours oversold, lost, doubled or stranded anything, or did not come to rest; what the others do is a
finding.`

export async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      kills: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '3' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      json: { type: 'string' },
      into: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) {
    console.log(help)
    return 0
  }
  const [kills, seconds, seed] = [values.kills, values.seconds, values.seed].map(Number) as [
    number,
    number,
    number,
  ]
  const known = new Set([...designs.map(({ name }) => name), 'tidegate'])
  if (!positionals.every((name) => known.has(name)) || !(kills >= 0 && seconds > 0 && seed >= 0)) {
    console.error(help)
    return 2
  }
  const isChosen = (name: string) => positionals.length === 0 || positionals.includes(name)
  const progress = (line: string) => {
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}`)
  }
  const say = (line: string) => {
    progress('')
    console.log(line)
  }
  say(`peers: seed ${seed}`)
  const records = await runPeers(
    {
      designs: designs.filter(({ name }) => isChosen(name)),
      ours: isChosen('tidegate'),
      times: { service: kills, consumer: Math.min(2, kills), store: Math.min(1, kills) },
      seconds,
      random: seeded(seed),
      say,
      progress,
    },
    join(import.meta.dirname, '..', '..', '.tidegate'),
  )
  if (values.json) writeJson(values.json, records)
  if (values.into) mergeInto(values.into, { peers: records })
  return verdict(records, say)
}

function verdict(records: readonly PeerRecord[], say: (line: string) => void): number {
  const faults = ({ oversold, lost, doubled, stranded = 0 }: PeerRecord) =>
    oversold + lost + doubled + stranded
  const ours = records.find(({ name }) => name === 'tidegate')
  const broken = records.filter((record) => record !== ours && faults(record) > 0).length
  const others = `${broken} of ${records.length - (ours ? 1 : 0)} other designs broke a promise`
  if (ours === undefined) say(`peers: ${others}`)
  else say(`peers: ours ${faults(ours) === 0 ? 'kept every promise' : 'FAILED'}; ${others}`)
  return ours !== undefined && faults(ours) > 0 ? 1 : 0
}

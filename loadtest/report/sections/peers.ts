import type { PeerKill, PeerRecord } from '../../record/record.ts'
import { isWhole } from '../data/verdict.ts'
import { barsFigure } from '../plot/bars.ts'
import { ms, number } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { outcome, table } from '../text/table.ts'
import { absent, type Report, section } from './section.ts'

/** By what was killed: a design that loses nothing with its service may lose all with its store. */
function killsTable({ name, kills = [] }: PeerRecord): Html | false {
  if (kills.length === 0) return false
  const count = (head: string, field: Exclude<keyof PeerKill, 'kind'>) => ({
    head,
    right: true,
    cell: (kill: PeerKill) => number(kill[field]),
  })
  return table<PeerKill>(
    `${name}, by what was killed`,
    [
      { head: 'killed', cell: ({ kind }) => kind },
      count('times', 'times'),
      count('heard yes', 'promised'),
      count('coupons', 'coupons'),
      count('oversold', 'oversold'),
      count('lost', 'lost'),
      count('doubled', 'doubled'),
      count('stranded', 'stranded'),
      count('told otherwise later', 'withdrawn'),
      count('never answered', 'unanswered'),
    ],
    kills,
  )
}

export function peersSection({ record: { peers } }: Report): Html {
  if (!peers || peers.length === 0)
    return section(
      'peers',
      'Other designs',
      absent('No peer is in this record.', 'npm run loadtest -- peers --json peers.json'),
    )
  const plot = barsFigure({
    title: 'Claims a second, by design',
    caption: 'What each answers by itself; what it loses for that is in the table.',
    unit: 'claims a second',
    names: peers.map(({ name }) => name),
    series: [{ name: 'claims', values: peers.map((peer) => peer.claims_per_second) }],
  })
  return section(
    'peers',
    'Other designs',
    html`<p>The same load and the same auditor on other ways to do it; each had its process killed in the middle.</p>
`,
    table<PeerRecord>(
      'Designs: throughput, and what was wrong after the kill',
      [
        { head: 'design', cell: (peer) => peer.name },
        { head: 'claims a second', right: true, cell: (peer) => number(peer.claims_per_second) },
        { head: 'p99', right: true, cell: (peer) => ms(peer.p99_ms) },
        { head: 'oversold', right: true, cell: (peer) => number(peer.oversold) },
        { head: 'lost', right: true, cell: (peer) => number(peer.lost) },
        { head: 'doubled', right: true, cell: (peer) => number(peer.doubled) },
        { head: 'stranded', right: true, cell: (peer) => number(peer.stranded) },
        { head: 'nothing wrong', cell: (peer) => outcome(isWhole(peer), ['yes', 'no']) },
        {
          head: 'about',
          cell: (peer) => `${peer.about} ${peer.note}`,
        },
      ],
      peers,
    ),
    html`<p class="note">Oversold: coupons beyond the quota. Lost: told yes, and no coupon. Doubled: users with more than their limit. Stranded:
stock gone without a coupon.</p>
${
  peers.some(({ kills = [] }) => kills.length > 0) &&
  html`<details><summary>By what was killed</summary>
${peers.map(killsTable)}</details>
`
}<div class="figures">${plot}</div>
`,
  )
}

import type { PeerRecord } from '../../record/record.ts'
import { isWhole } from '../data/verdict.ts'
import { barsFigure } from '../plot/bars.ts'
import { ms, number } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { outcome, table } from '../text/table.ts'
import { absent, type Report, section } from './section.ts'

/** Newer records also say what stock was gone without a coupon, and what was killed. */
type Peer = PeerRecord & { readonly stranded?: number; readonly kill?: string }

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
    table<Peer>(
      'Designs: throughput, and what was wrong after the kill',
      [
        { head: 'design', cell: (peer) => peer.name },
        { head: 'claims a second', right: true, cell: (peer) => number(peer.claims_per_second) },
        { head: 'p99', right: true, cell: (peer) => ms(peer.p99_ms) },
        { head: 'oversold', right: true, cell: (peer) => number(peer.oversold) },
        { head: 'lost', right: true, cell: (peer) => number(peer.lost) },
        { head: 'doubled', right: true, cell: (peer) => number(peer.doubled) },
        { head: 'stranded', right: true, cell: (peer) => number(peer.stranded) },
        { head: 'kept its word', cell: (peer) => outcome(isWhole(peer), ['yes', 'no']) },
        {
          head: 'about',
          cell: (peer) => [peer.about, peer.kill ? ` Killed: ${peer.kill}.` : '', ` ${peer.note}`],
        },
      ],
      peers,
    ),
    html`<p class="note">Oversold: coupons beyond the quota. Lost: told yes, and no coupon. Doubled: users with more than their limit. Stranded:
stock gone without a coupon.</p>
<div class="figures">${plot}</div>
`,
  )
}

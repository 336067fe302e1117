import type { RunRecord } from '../../record/record.ts'
import { number, scalar } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { pairs } from '../text/table.ts'
import { type Report, section } from './section.ts'

/** How Redis keeps what it is told decides what a crash costs, so it has a table of its own. */
const isOfPersistence = (name: string) => /append|fsync|^save$|maxmemory|persist|rdb|aof/i.test(name)

function machine({ machine: { cpus, cpu_model, memory_gib, os, versions } }: RunRecord): Html[] {
  return [
    pairs('Machine', [
      ['processor', `${cpu_model}, ${number(cpus)} cores`],
      ['memory', `${number(memory_gib)} GiB`],
      ['system', os],
    ]),
    pairs('Versions', Object.entries(versions)),
  ]
}

/** What has to be known to repeat the run and to doubt it. */
export function appendixSection({ record }: Report): Html {
  const settings = Object.entries(record.settings).map(([name, value]) => [name, scalar(value)] as const)
  const persistence = settings.filter(([name]) => isOfPersistence(name))
  const others = settings.filter(([name]) => !isOfPersistence(name))
  return section(
    'appendix',
    'Machine, versions, settings',
    html`<p>Made ${record.made_at} from commit <code>${record.commit}</code> by <code>${record.command}</code>. What each scenario was
set to, who came and how large requests were, stands with it.</p>
<div class="tables">${[...machine(record), pairs('Persistence of Redis', persistence), pairs('Settings', others)]}</div>
`,
    record.indexes.length === 0
      ? html`<p class="absent">Indexes: none recorded.</p>
`
      : html`<h3>Indexes of the tables that the claim path writes</h3>
<ul class="code">${record.indexes.map(
          (index) => html`<li><code>${index}</code></li>
`,
        )}</ul>
`,
  )
}

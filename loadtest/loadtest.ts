/**
 * `npm run loadtest -- COMMAND …`: the load test's front door. Each command lives in a folder of its own, and is
 * loaded only when it is called.
 */

import { type ScenarioName, scenarioNames, titles } from './scenarios/names.ts'

interface Command {
  readonly usage: string
  readonly about: string
  /** @returns the exit code */
  run(args: readonly string[]): Promise<number>
}

const scenario = (name: ScenarioName | 'all', about: string): [string, Command] => [
  name,
  {
    usage: '[--minutes M] [--rate R] [--json F]',
    about,
    run: async (args) => (await import('./scenarios/command.ts')).main([name, ...args]),
  },
]

const commands: Readonly<Record<string, Command>> = {
  ...Object.fromEntries([
    ...scenarioNames.map((name) => scenario(name, titles[name])),
    scenario('all', 'all of these scenarios, one after the other'),
  ]),
  capacity: {
    usage: '--target N --quota N [--costs F] [--json F]',
    about: 'what an opening needs, and its bottleneck, from unit costs measured here',
    run: async (args) => (await import('./capacity/command.ts')).main(args),
  },
  peers: {
    usage: '[NAME…] [--json F]',
    about: 'ours and five other designs: throughput, and what each breaks when it is killed',
    run: async (args) => (await import('./peers/command.ts')).main(args),
  },
  scale: {
    usage: '[NAME…] [--claims N] [--json F]',
    about: 'more buckets, Redis servers, cores and workers: what each changes, and what is at its limit',
    run: async (args) => (await import('./scale/command.ts')).main(args),
  },
  report: {
    usage: '--in RUN.json [parts] --html F [--json F]',
    about: 'everything that was measured, as one HTML file and one JSON',
    run: async (args) => (await import('./report/command.ts')).main(args),
  },
}

const help = `npm run loadtest -- COMMAND [options]

${Object.entries(commands)
  .map(([name, { usage, about }]) => `  ${`${name} ${usage}`.padEnd(52)} ${about}`)
  .join('\n')}

Each command has its own --help. Exit code 1: a criterion was missed or an invariant broken; 2: wrong arguments.`

const [name, ...args] = process.argv.slice(2)
const command = name === undefined ? undefined : commands[name]
if (command === undefined) {
  const asked = name === undefined || name === '--help' || name === '-h'
  console[asked ? 'log' : 'error'](help)
  process.exit(name === undefined || !asked ? 2 : 0)
}
process.exit(await command.run(args))

import { main } from './sim/command.ts'

/** `npm run sim -- …`: the seeded simulation. */
process.exit(await main(process.argv.slice(2)))

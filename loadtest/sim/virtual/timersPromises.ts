/** Stands for node:timers/promises in the product's modules while they are simulated. */
export { sleep as setTimeout } from './globals.ts'

import { scenarioNames } from '../../scenarios/names.ts'

/** The matrix' scenarios that are not among these: they were not run, or broke before they could say anything. */
export function missingFrom(scenarios: readonly { readonly name: string }[]): string[] {
  return scenarioNames.filter((name) => !scenarios.some((scenario) => scenario.name === name))
}

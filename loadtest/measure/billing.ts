import type { Stack } from '../../stack/stack.ts'

/** What the gateway knows of its Redis, since it started. */
export interface Bill {
  /** Commands executed by the database, those inside scripts too: what Upstash bills. */
  readonly billed_commands: number
  /** The same by name in lower case. */
  readonly by_command: Readonly<Record<string, number>>
  readonly http_requests: number
  readonly commands_sent: number
}

/** The bills of all stores as one. */
export async function readBill(stack: Stack): Promise<Bill> {
  const gateways = [stack.endpoints.gateway, ...stack.scaled.stores.map(({ gateway }) => gateway)]
  const bills = await Promise.all(gateways.map((gateway) => billOf(gateway, stack.keys.gatewayToken)))
  const sum = (of: (bill: Bill) => number) => bills.reduce((all, bill) => all + of(bill), 0)
  const names = new Set(bills.flatMap((bill) => Object.keys(bill.by_command)))
  return {
    billed_commands: sum((bill) => bill.billed_commands),
    by_command: Object.fromEntries(
      [...names].map((name) => [name, sum((bill) => bill.by_command[name] ?? 0)]),
    ),
    http_requests: sum((bill) => bill.http_requests),
    commands_sent: sum((bill) => bill.commands_sent),
  }
}

export async function billedCommands(stack: Stack): Promise<number> {
  return (await readBill(stack)).billed_commands
}

async function billOf(gateway: string, token: string): Promise<Bill> {
  const response = await fetch(`${gateway}/_gateway/stats`, { headers: { Authorization: `Bearer ${token}` } })
  if (!response.ok) throw new Error(`the gateway's statistics: HTTP ${response.status}`)
  return (await response.json()) as Bill
}

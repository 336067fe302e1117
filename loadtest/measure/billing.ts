import type { Stack } from '../../stack/stack.ts'

/** Redis commands executed by the database so far, those inside scripts too: what Upstash bills. */
export async function billedCommands(stack: Stack): Promise<number> {
  const response = await fetch(`${stack.endpoints.gateway}/_gateway/stats`, {
    headers: { Authorization: `Bearer ${stack.keys.gatewayToken}` },
  })
  if (!response.ok) throw new Error(`the gateway's statistics: HTTP ${response.status}`)
  const { billed_commands: billed } = (await response.json()) as { billed_commands: number }
  return billed
}

import type { Role } from '../http/identity.ts'

/** Who may do what to a campaign (GV4). Whoever makes one never approves it, whatever the roles. */
export const campaignRoles = {
  create: ['operator'],
  submit: ['operator'],
  approve: ['approver'],
  reject: ['approver'],
  publish: ['operator'],
  /** An approver may too: stopping must not wait for the right person. */
  pause: ['operator', 'approver'],
  resume: ['operator'],
  end: ['operator'],
  void: ['approver'],
  /** More coupons are more money: not for whoever made the campaign, see increase.ts. */
  increase: ['approver'],
  pace: ['operator', 'approver'],
  draw: ['operator'],
  rebuild: ['operator', 'approver'],
  presentReceipt: ['operator', 'support'],
  read: ['operator', 'approver', 'support', 'finance', 'auditor'],
  readAudit: ['operator', 'approver', 'auditor'],
} as const satisfies Record<string, readonly Role[]>

/** Verbs that move a campaign from state to state. */
const verbs = [
  'submit',
  'approve',
  'reject',
  'publish',
  'pause',
  'resume',
  'end',
  'void',
] as const satisfies readonly (keyof typeof campaignRoles)[]
export type CampaignVerb = (typeof verbs)[number]

export function isCampaignVerb(text: string): text is CampaignVerb {
  return (verbs as readonly string[]).includes(text)
}

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
  read: ['operator', 'approver', 'support', 'finance', 'auditor'],
  readAudit: ['operator', 'approver', 'auditor'],
} as const satisfies Record<string, readonly Role[]>

export type CampaignVerb = Exclude<keyof typeof campaignRoles, 'create' | 'read' | 'readAudit'>

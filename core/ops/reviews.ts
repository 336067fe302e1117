import type { Client } from './client.ts'
import { OpsError } from './errors.ts'

const verbs: Record<string, readonly string[]> = {
  reviews: ['issue', 'reject', 'retry'],
  'dead-letters': ['replay', 'discard'],
}

/** Lists what waits for a person, or decides on one of them. @returns the core's answer. */
export async function reviews(
  client: Client,
  call: {
    queue: 'reviews' | 'dead-letters'
    verb: string | undefined
    id: string | undefined
    query: string
    reason: string | undefined
  },
): Promise<unknown> {
  const { queue, verb, id, query, reason } = call
  const path = `/admin/v1/${queue}`
  if (verb === undefined || verb === 'list') return client.read(path + query)
  if (!verbs[queue]!.includes(verb) || id === undefined)
    throw new OpsError('usage', `Give ${queue} list, or ${queue} ${verbs[queue]!.join('|')} ID.`)
  return client.post(
    'operator',
    `${path}/${encodeURIComponent(id)}/${verb}`,
    reason === undefined ? {} : { reason },
  )
}

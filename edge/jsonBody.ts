import { limits } from '../schema/limits.ts'
import type { Refuse } from './refusal.ts'

/** The JSON value of a request's body, undefined for a text that is none; or why it is not even read. */
export async function jsonBody(refuse: Refuse, request: Request): Promise<{ value: unknown } | Response> {
  if (Number(request.headers.get('Content-Length')) > limits.requestBodyBytesMax)
    return refuse('PAYLOAD_TOO_LARGE')
  const type = request.headers.get('Content-Type') ?? ''
  if (!/^application\/json\s*(;|$)/i.test(type)) return refuse('UNSUPPORTED_MEDIA_TYPE')
  return { value: parse(await readBounded(request)) }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What is beyond the limit is not read: the text is then no JSON. */
async function readBounded({ body }: Request): Promise<string> {
  if (body === null) return ''
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > limits.requestBodyBytesMax) break
  }
  return text
}

import type { Language } from './format.ts'
import type { Challenge } from './model.ts'

/** Where the check is shown. The model says which, if any; what becomes of it goes back as happenings. */
export interface ChallengeBox {
  /** Called with every change of the model; a round is shown once. */
  show(challenge: Challenge | undefined): void
}

export interface ChallengeBoxParts {
  /** The element that the widget is put into. */
  box: HTMLElement
  /** Address of Turnstile's script; undefined on a page that was built without it. */
  source: string | undefined
  language(): Language
  solved(answer: string): void
  expired(): void
  failed(): void
}

/** Turnstile's explicit API, as far as it is used here. */
interface Turnstile {
  render(box: HTMLElement, options: Record<string, unknown>): string | null | undefined
  remove(widget: string): void
}

const loadTimeoutMs = 12_000
/** The narrowest that the widget's wide form may be; its compact one is 150 wide and 140 high. */
const wideMinPx = 300

/**
 * Turnstile's widget. Its script is fetched when the first challenge is shown and never before: nobody else's code
 * runs on the page of a reader who isn't asked. Every round has a fresh widget, since an answer is good once.
 */
export function challengeBox(parts: ChallengeBoxParts): ChallengeBox {
  let round: number | undefined
  let widget: string | undefined

  function clear(): void {
    round = undefined
    if (widget !== undefined) turnstile()?.remove(widget)
    widget = undefined
    parts.box.replaceChildren()
  }

  async function present(challenge: Challenge): Promise<void> {
    const mine = challenge.round
    /** What a widget of an earlier round says late is not heard. */
    const heard = (then: () => void) => {
      if (round === mine) then()
    }
    try {
      if (parts.source === undefined || challenge.siteKey === undefined)
        throw new Error('the page or the gate has no site key')
      await visible()
      const api = await loaded(parts.source)
      heard(() => {
        widget = api.render(parts.box, {
          sitekey: challenge.siteKey,
          action: challenge.action,
          theme: 'auto',
          language: parts.language() === 'zh' ? 'zh-cn' : 'en',
          size: parts.box.clientWidth < wideMinPx ? 'compact' : 'flexible',
          // What went wrong is said by the page, in its words, and tried again when the reader says so.
          retry: 'never',
          'refresh-expired': 'manual',
          'refresh-timeout': 'manual',
          'response-field': false,
          callback: (answer: string) => heard(() => parts.solved(answer)),
          'expired-callback': () => heard(parts.expired),
          'timeout-callback': () => heard(parts.expired),
          'unsupported-callback': () => heard(parts.failed),
          'error-callback': () => {
            heard(parts.failed)
            return true
          },
        }) as string | undefined
        if (widget == null) throw new Error('not rendered')
      })
    } catch {
      heard(parts.failed)
    }
  }

  return {
    show(challenge) {
      if (challenge?.round === round) return
      clear()
      if (challenge === undefined) return
      round = challenge.round
      void present(challenge)
    },
  }
}

function turnstile(): Turnstile | undefined {
  return (globalThis as { turnstile?: Turnstile }).turnstile
}

/** A check begun behind the reader's back would run out there. */
async function visible(): Promise<void> {
  if (document.hidden)
    await new Promise<void>((resolve) => {
      document.addEventListener('visibilitychange', () => resolve(), { once: true })
    })
}

let loading: Promise<Turnstile> | undefined

/** One script however many rounds; a failed load may be tried again. */
function loaded(source: string): Promise<Turnstile> {
  loading ??= load(source).catch((error) => {
    loading = undefined
    throw error
  })
  return loading
}

function load(source: string): Promise<Turnstile> {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    const late = setTimeout(() => ended(false), loadTimeoutMs)
    const ended = (arrived: boolean) => {
      clearTimeout(late)
      const api = arrived ? turnstile() : undefined
      if (api !== undefined) return resolve(api)
      script.remove()
      reject(new Error('the script did not come'))
    }
    script.onload = () => ended(true)
    script.onerror = () => ended(false)
    script.src = source
    document.head.append(script)
  })
}

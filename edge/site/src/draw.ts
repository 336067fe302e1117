import { type Language, localeOf } from './format.ts'
import type { Action, Fact, Screen } from './screen.ts'

/**
 * Puts a screen on the page. Only what changed is touched: the status line is announced once per change, and
 * the countdown ticks without a word.
 */
export interface Page {
  draw(screen: Screen, language: Language): void
}

export interface Presses {
  press(): void
  another(): void
  language(): void
}

export function pageOf(root: Document, presses: Presses): Page {
  const by = (id: string) => root.getElementById(id)!
  const slot = by('slot')
  let lastStub = ''
  let lastTerms = ''

  // One listener on what never changes: the action itself is a button in one state and a link in the next.
  slot.addEventListener('click', (event) => {
    const button = (event.target as Element).closest('button')
    if (button && button.getAttribute('aria-disabled') !== 'true') presses.press()
  })
  by('another').addEventListener('click', presses.another)
  by('language').addEventListener('click', presses.language)

  return {
    draw(screen, language) {
      const html = root.documentElement
      html.lang = localeOf[language]
      html.dataset['phase'] = screen.phase
      html.dataset['tone'] = screen.tone
      html.style.setProperty('--level', String(screen.level))
      if (root.title !== screen.title) root.title = screen.title
      say(by('name'), screen.name)
      say(by('worth'), screen.benefit[0])
      by('worth').style.setProperty('--chars', String(widthInChars(screen.benefit[0])))
      say(by('condition'), screen.benefit[1])
      lastStub = list(by('stub'), screen.stub, lastStub)
      lastTerms = list(by('terms-list'), screen.terms, lastTerms)
      say(by('terms-title'), screen.termsTitle)
      by('terms').hidden = screen.terms.length === 0
      say(by('before'), screen.status.before)
      say(by('count'), screen.status.count)
      say(by('after'), screen.status.after)
      check(root, by('check'), screen.check)
      act(root, slot, screen)
      say(by('another'), screen.another ?? '')
      say(by('clock'), screen.clock)
      say(by('language'), screen.otherLanguage)
      by('language').lang = language === 'en' ? localeOf.zh : 'en'
    },
  }
}

/** Writes a text where it differs, and hides what has none. */
function say(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text
  if (element.hidden !== (text === '')) element.hidden = text === ''
}

function list(element: HTMLElement, facts: Fact[], last: string): string {
  const now = JSON.stringify(facts)
  if (now !== last) {
    const rows = facts.map(([label, value]) => {
      const row = document.createElement('div')
      row.append(made('dt', label), made('dd', value))
      return row
    })
    element.replaceChildren(...rows)
  }
  return now
}

function made(tag: string, text: string, className = ''): HTMLElement {
  const element = document.createElement(tag)
  element.textContent = text
  if (className) element.className = className
  return element
}

/**
 * The check comes and goes as a whole. The focus goes to its heading, from where the widget is the next stop; unless
 * the reader is somewhere else on the page, as in the fine print. When it goes, the focus that was in it goes on.
 */
function check(root: Document, section: HTMLElement, heading: string | undefined): void {
  const title = root.getElementById('check-title')!
  say(title, heading ?? '')
  if (section.hidden === (heading === undefined)) return
  const from = root.activeElement
  const within = section.contains(from)
  const nearby = from === null || from === root.body || root.querySelector('.dock')!.contains(from)
  section.hidden = heading === undefined
  if (heading !== undefined) {
    if (nearby) title.focus({ preventScroll: true })
    section.scrollIntoView({ block: 'nearest' })
  } else if (within) root.getElementById('status')!.focus({ preventScroll: true })
}

/** Phases in which a request is out, or an answer is awaited that comes by itself. */
const flowing = new Set(['sending', 'unknown', 'accepted'])

function act(root: Document, slot: HTMLElement, { action, phase }: Screen): void {
  const shape = JSON.stringify([action?.label, action?.href, action?.enabled, phase])
  if (slot.dataset['shape'] === shape) {
    tick(slot, action)
    return
  }
  const hadFocus = slot.contains(root.activeElement)
  slot.dataset['shape'] = shape
  slot.replaceChildren(...(action ? [actionElement(action)] : []))
  if (flowing.has(phase)) (slot.firstElementChild ?? slot).append(made('span', '', 'flow'))
  tick(slot, action)
  if (!hadFocus) return
  const next = slot.querySelector<HTMLElement>('#action') ?? root.getElementById('status')
  next?.focus({ preventScroll: true })
}

function actionElement(action: Action): HTMLElement {
  const element = action.href === undefined ? made('button', '') : made('a', '')
  element.id = 'action'
  element.className = 'action'
  if (element instanceof HTMLButtonElement) {
    element.type = 'button'
    // Not `disabled`: the focus stays, so a keyboard is ready when the moment comes.
    element.setAttribute('aria-disabled', String(!action.enabled))
  } else element.setAttribute('href', action.href!)
  if (action.progress !== undefined) element.append(made('span', '', 'rise'))
  element.append(made('span', action.label))
  if (action.time !== undefined) element.append(made('span', action.time, 'time'))
  return element
}

function tick(slot: HTMLElement, action: Action | undefined): void {
  const time = slot.querySelector<HTMLElement>('.time')
  if (time && action?.time !== undefined) say(time, action.time)
  if (action?.progress !== undefined) slot.style.setProperty('--progress', String(action.progress))
}

/** How wide a text is, in average Latin characters: CJK ones count for nearly two. */
function widthInChars(text: string): number {
  let width = 0
  for (const char of text) width += char.codePointAt(0)! > 0x2e80 ? 1.8 : 1
  return Math.max(width, 4)
}

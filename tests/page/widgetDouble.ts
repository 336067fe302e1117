import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TurnstileDouble } from '../edge/turnstileDouble.ts'

/**
 * Turnstile's side of the browser as Cloudflare documents it: `api.js?render=explicit` with `render`, `reset` and
 * `remove`, whose widget is a frame of its own origin that solves there and hands the answer over by message. It
 * stands in because the real one can't be reached from a test; what it gives is what the siteverify double knows.
 */
export class WidgetDouble {
  /** What a press in the widget does. `silent`: nothing, ever; `wrong`: an answer that the verifier never gave. */
  mode: 'solve' | 'wrong' | 'expire' | 'error' | 'unsupported' | 'silent' = 'solve'
  /** Of the script's delivery. */
  fault: 'none' | 'gone' | 'empty' = 'none'
  /** Paths that were asked for, in order. */
  readonly asked: string[] = []
  /** What `render` was called with, as the frame's address says. */
  readonly rendered: Record<string, string>[] = []
  readonly #turnstile: TurnstileDouble
  readonly #server: Server

  constructor(turnstile: TurnstileDouble) {
    this.#turnstile = turnstile
    this.#server = createServer((request, response) => {
      const url = new URL(request.url!, 'http://127.0.0.1')
      this.asked.push(url.pathname)
      this.#serve(url, response)
    })
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  get script(): string {
    return `${this.origin}/turnstile/v0/api.js?render=explicit`
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** As before any test. */
  clear(): void {
    this.mode = 'solve'
    this.fault = 'none'
    this.asked.length = 0
    this.rendered.length = 0
  }

  #serve(url: URL, response: ServerResponse): void {
    const send = (type: string, body: string) => response.writeHead(200, { 'Content-Type': type }).end(body)
    switch (url.pathname) {
      case '/turnstile/v0/api.js':
        if (this.fault === 'gone') response.writeHead(404).end()
        else send('text/javascript', this.fault === 'empty' ? '' : apiScript)
        return
      case '/widget':
        this.rendered.push(Object.fromEntries(url.searchParams))
        send('text/html; charset=utf-8', framePage)
        return
      case '/solve': {
        const action = url.searchParams.get('action') ?? ''
        const answer =
          this.mode === 'wrong' ? 'never-given' : this.#turnstile.solve({ hostname: '127.0.0.1', action })
        send('application/json', JSON.stringify({ mode: this.mode, answer }))
        return
      }
      default:
        response.writeHead(404).end()
    }
  }
}

const apiScript = `(() => {
  const origin = new URL(document.currentScript.src).origin
  const widgets = new Map()
  let count = 0
  const sizes = { normal: ['300px', '65px'], compact: ['150px', '140px'], flexible: ['100%', '65px'] }
  addEventListener('message', (event) => {
    const widget = event.origin === origin && [...widgets.values()].find(({ frame }) => frame.contentWindow === event.source)
    if (!widget) return
    const { name, value } = event.data
    const call = widget.options[name]
    if (typeof call === 'function') call(value)
  })
  window.turnstile = {
    render(box, options) {
      if (!/^[a-z0-9_-]{0,32}$/i.test(options.action ?? '')) throw new Error('invalid action')
      if (typeof options.sitekey !== 'string') throw new Error('invalid sitekey')
      const id = 'cf-chl-widget-' + count++
      const frame = document.createElement('iframe')
      const { sitekey, action, theme, size, language } = options
      frame.src = origin + '/widget?' + new URLSearchParams({ sitekey, action, theme, size, language })
      frame.title = 'Widget containing a security challenge'
      frame.allow = 'cross-origin-isolated; fullscreen; autoplay'
      frame.setAttribute('sandbox', 'allow-same-origin allow-scripts allow-popups')
      frame.style.border = 'none'
      frame.style.display = 'block'
      ;[frame.style.width, frame.style.height] = sizes[size]
      widgets.set(id, { frame, options })
      box.append(frame)
      return id
    },
    reset(id) { widgets.get(id).frame.src += '' },
    remove(id) { widgets.get(id)?.frame.remove(); widgets.delete(id) },
  }
})()`

const framePage = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>check</title>
<style>body{margin:0;display:flex;align-items:center;height:100vh;box-sizing:border-box;border:1px solid GrayText;font:14px sans-serif;color:CanvasText;background:Canvas}
label{display:flex;align-items:center;gap:8px;min-height:44px;padding:0 12px}input{width:24px;height:24px}</style>
<main><label><input type="checkbox" id="human">Verify you are human</label></main>
<script>
const query = new URLSearchParams(location.search)
if (query.get('language') === 'zh-cn') { document.documentElement.lang = 'zh-CN'; document.querySelector('label').lastChild.data = '请验证您是真人' }
const tell = (name, value) => parent.postMessage({ name, value }, '*')
document.getElementById('human').onchange = async () => {
  const { mode, answer } = await (await fetch('/solve?action=' + encodeURIComponent(query.get('action')))).json()
  if (mode === 'solve' || mode === 'wrong') tell('callback', answer)
  if (mode === 'expire') tell('expired-callback')
  if (mode === 'error') tell('error-callback', '300010')
  if (mode === 'unsupported') tell('unsupported-callback')
}
</script></html>`

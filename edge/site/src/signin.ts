import { localeOf } from './format.ts'
import { chosenLanguage } from './language.ts'

/**
 * Composition root of `/login`, which stands in until a shop names its own sign-in in brand.ts: takes a login token
 * and leads back to `return_to` with it in the fragment, just as the shop's page would.
 */

const by = (id: string) => document.getElementById(id)!
const query = new URLSearchParams(location.search)

if (chosenLanguage(query) === 'zh') {
  document.documentElement.lang = localeOf.zh
  by('heading').textContent = '登录'
  by('why').textContent =
    '这里将接入商家自己的登录。接入之前，请粘贴登录令牌；在开发机上可用 npm run ops -- token --user ada 生成。'
  by('label').textContent = '登录令牌'
  by('go').textContent = '继续'
}

/** Only a path of this site: a foreign address here would carry the login away. */
function target(): URL {
  const wanted = new URL(query.get('return_to') ?? '/wallet', location.origin)
  return wanted.origin === location.origin ? wanted : new URL('/wallet', location.origin)
}

by('form').addEventListener('submit', (event) => {
  event.preventDefault()
  const to = target()
  to.hash = `login=${encodeURIComponent((by('token') as HTMLTextAreaElement).value.trim())}`
  location.assign(to)
})

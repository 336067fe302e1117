import assert from 'node:assert/strict'
import { test } from 'node:test'
import { html, slug } from './html.ts'

const attack = `<script>alert("1" & '2')</script>`

test('whatever is put into a template is escaped, in text, in attributes and in lists', () => {
  const escaped = '&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)&lt;/script&gt;'
  assert.equal(
    html`<p title="${attack}">${[attack, html`<b>${attack}</b>`]}</p>`.text,
    `<p title="${escaped}">${escaped}<b>${escaped}</b></p>`,
  )
})

test('nothing is written for what is absent, and zero is written', () => {
  assert.equal(html`${null}${undefined}${false}${0}`.text, '0')
})

test('an anchor has only letters, digits and hyphens, and is never empty', () => {
  assert.equal(slug(attack), 'script-alert-1-2-script')
  assert.equal(slug('。。'), 'part')
})

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { send, start } from '../support.ts'

test('the page is one file, whose policy allows its own script and style only', async (t) => {
  const { body: html, headers } = await send(await start(t, { basePath: '/shop' }), 'GET', '/')
  assert.equal(headers['content-type'], 'text/html; charset=utf-8')
  const hashOf = (name: string) => {
    const [, text = '', ...more] = html.split(new RegExp(`</?${name}>`))
    assert.equal(more.length, 1, `one ${name}`)
    return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  }
  assert.equal(
    headers['content-security-policy'],
    `default-src 'none'; script-src ${hashOf('script')}; style-src ${hashOf('style')}; ` +
      "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; " +
      "form-action 'none'",
  )
  assert.equal(headers['referrer-policy'], 'no-referrer')
  const markup = html.replace(/<(script|style)>.*?<\/\1>/gs, '')
  assert.doesNotMatch(markup, /<(?:script|style|iframe|base)\b|\s(?:style|on\w+|src)=|javascript:/i)
})

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { createPetstore } from '../../src/petstore.ts'

async function getPage(options = {}): Promise<{ html: string; headers: Headers }> {
  const response = await createPetstore(options).fetch('http://petstore.invalid/')
  assert.equal(response.status, 200)
  return { html: await response.text(), headers: response.headers }
}

test('the page is one file under 30 kB, and refers to no other place', async () => {
  const { html, headers } = await getPage()
  assert.ok(Buffer.byteLength(html) < 30_000, `${Buffer.byteLength(html)} bytes`)
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8')
  assert.deepEqual(html.match(/\w+:\/\/[^"'\s)]+/g), ['http://www.w3.org/2000/svg'])
  assert.doesNotMatch(html, /<(?:script|style|iframe|img|object|base)\s|@import|url\(|\ssrc=/)
})

test('the page is the same under every base path: it learns its own from /openapi.json', async () => {
  assert.equal((await getPage({ basePath: '/shop/v1' })).html, (await getPage()).html)
})

test('the policy allows the style and the script of the page by their hashes, and nothing of another origin', async () => {
  const { html, headers } = await getPage()
  const hashOf = (name: string) => {
    const parts = html.split(new RegExp(`</?${name}>`))
    assert.equal(parts.length, 3, `one ${name}`)
    const hash = createHash('sha256').update(parts[1] ?? '')
    return `'sha256-${hash.digest('base64')}'`
  }
  const directives = headers.get('content-security-policy')?.split('; ') ?? []
  assert.deepEqual(Object.fromEntries(directives.map((text) => [text.split(' ', 1)[0], text.replace(/^\S+ /, '')])), {
    'default-src': "'none'",
    'script-src': hashOf('script'),
    'style-src': hashOf('style'),
    'img-src': 'data:',
    'connect-src': "'self'",
    'frame-ancestors': "'none'",
    'base-uri': "'none'",
    'form-action': "'none'",
    'require-trusted-types-for': "'script'",
    'trusted-types': "'none'",
  })
  assert.equal(headers.get('referrer-policy'), 'no-referrer')
})

test('no markup of the page carries style or script, which the policy would not let run', async () => {
  const { html } = await getPage()
  assert.doesNotMatch(html.replace(/<(script|style)>.*?<\/\1>/gs, ''), /\s(?:style|on\w+)=|javascript:/i)
})

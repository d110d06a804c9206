import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { createPetstore } from '../../src/petstore/launch.ts'
import { folderOf } from '../support.ts'

const SOURCES = join(import.meta.dirname, '../../src')

async function getPage(options = {}): Promise<{ html: string; headers: Headers }> {
  const response = await createPetstore(options).fetch('http://petstore.invalid/')
  return { html: await response.text(), headers: response.headers }
}

test('the page is one file, and the same at any base path', async () => {
  const { html, headers } = await getPage()
  assert.equal(headers.get('content-type'), 'text/html; charset=utf-8')
  const namespace = 'http://www.w3.org/2000/svg' // a name: nothing fetches it
  for (const [url] of html.matchAll(/\w+:\/\/[^"'\s)]+/g)) assert.equal(url, namespace)
  assert.doesNotMatch(html, /<(?:script|style|iframe|img|object|base)\s|@import|url\(|\ssrc=/)
  assert.equal((await getPage({ basePath: '/shop/v1' })).html, html)
})

test('the policy allows only the style and script of the page, by their hashes', async () => {
  const { html, headers } = await getPage()
  const hashOf = (name: string) => {
    const [, text = '', ...more] = html.split(new RegExp(`</?${name}>`))
    assert.equal(more.length, 1, `one ${name}`)
    return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  }
  const policy = `default-src 'none'; script-src ${hashOf('script')}; \
style-src ${hashOf('style')}; img-src data:; \
connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`
  assert.equal(headers.get('content-security-policy'), policy)
  assert.equal(headers.get('referrer-policy'), 'no-referrer')
  const markup = html.replace(/<(script|style)>.*?<\/\1>/gs, '')
  assert.doesNotMatch(markup, /\s(?:style|on\w+)=|javascript:/i)
})

test('a checkout with CRLF serves the same page, which its policy allows', async () => {
  const folder = folderOf()
  cpSync(SOURCES, folder, { recursive: true })
  const path = join(folder, 'api/page.html')
  writeFileSync(path, readFileSync(path, 'utf8').replace(/\r?\n/g, '\r\n'))
  const { homePage } = await import(pathToFileURL(join(folder, 'api/documents.ts')).href)
  const { body, headers } = homePage({ keyring: { isAnyKeyValid: false } })()
  const page = await getPage()
  assert.equal(body, page.html)
  assert.equal(headers[1], page.headers.get('content-security-policy'))
})

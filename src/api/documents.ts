import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Reply } from '../http/reply.ts'
import type { Handler } from '../http/router.ts'

/** GET /openapi.json. */
export function openapi(basePath: string): Handler {
  const reply: Reply = { status: 200, body: readText('openapi.json', basePath || '/') }
  return async () => reply
}

const OTHER_SOURCES =
  "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

/** GET /: the page for people. */
export function homePage(basePath: string): Handler {
  const body = readText('page.html', basePath)
  const own = `script-src ${sourceHash('script', body)}; style-src ${sourceHash('style', body)}`
  const headers = {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; ${own}; ${OTHER_SOURCES}`,
    'referrer-policy': 'no-referrer',
  }
  return async () => ({ status: 200, headers, body })
}

/** The hash by which the policy allows the only element of a name (CSP Level 3 §2.3.1). */
function sourceHash(name: string, html: string): string {
  const [, text = ''] = html.split(new RegExp(`</?${name}>`))
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** A file next to this one, with the base path in its only place. */
function readText(name: string, basePath: string): string {
  const text = readFileSync(`${__dirname}/${name}`, 'utf8').replace('"/v1"', `"${basePath}"`)
  return text.replaceAll('\r\n', '\n') // a browser hashes what it has parsed, whatever the checkout
}

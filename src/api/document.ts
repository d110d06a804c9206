import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Handler, Reply } from '../http/router.ts'

/** GET /openapi.json, read on the first request. In the file, `/v1` is always the base path. */
export function openapi(basePath: string): Handler {
  let reply: Reply | undefined
  return () => (reply ??= { status: 200, body: documentFor(basePath) })
}

function documentFor(basePath: string): string {
  const json = readText('openapi.json')
  return json.replace('"url": "/v1"', `"url": "${basePath || '/'}"`).replaceAll('/v1', basePath)
}

/** GET /: the page for people, read on the first request. */
export function homePage(): Handler {
  let reply: Reply | undefined
  return () => (reply ??= readPage())
}

const OTHER_SOURCES =
  "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

function readPage(): Reply {
  // A browser hashes what it has parsed: lines that end with LF, even if the checkout has CRLF.
  const body = readText('page.html').replaceAll('\r\n', '\n')
  const own = `script-src ${sourceHash('script', body)}; style-src ${sourceHash('style', body)}`
  const policy = `default-src 'none'; ${own}; ${OTHER_SOURCES}`
  const headers = ['Content-Security-Policy', policy, 'Referrer-Policy', 'no-referrer']
  return { status: 200, type: 'text/html; charset=utf-8', headers, body }
}

/** The hash by which the policy allows the only element of a name (CSP Level 3 §2.3.1). */
function sourceHash(name: string, html: string): string {
  const [, text = ''] = html.split(new RegExp(`</?${name}>`))
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** A file next to this one. */
function readText(name: string): string {
  return readFileSync(`${import.meta.dirname}/${name}`, 'utf8')
}

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reply } from '../http/reply.ts'

let reply: Reply | undefined

/** GET /: the page for people. It is read on the first request. */
export function page(): Reply {
  return (reply ??= readPage())
}

function readPage(): Reply {
  // A browser hashes what it has parsed, in which a line ends with LF, however the file was checked out.
  const body = readFileSync(join(import.meta.dirname, 'page.html'), 'utf8').replaceAll('\r\n', '\n')
  const sources = `script-src ${hashOf('script', body)}; style-src ${hashOf('style', body)}; img-src data:; connect-src 'self'`
  const nowhere = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
  const policy = `default-src 'none'; ${sources}; ${nowhere}; require-trusted-types-for 'script'; trusted-types 'none'`
  const headers = ['Content-Security-Policy', policy, 'Referrer-Policy', 'no-referrer']
  return { status: 200, type: 'text/html; charset=utf-8', headers, body }
}

/** The CSP source expression of the one element with this name (CSP Level 3 §2.3.1). */
function hashOf(name: string, html: string): string {
  const [, text = ''] = new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(html) ?? []
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reply } from '../http/respond.ts'
import type { Handler } from '../http/router.ts'

/** GET /: the page for people, which is read on the first request. */
export function website(): Handler {
  let reply: Reply | undefined
  return () => {
    reply ??= readPage()
    return reply
  }
}

function readPage(): Reply {
  // A browser hashes what it has parsed, where each line ends with LF, however it was checked out.
  const body = readFileSync(join(import.meta.dirname, 'page.html'), 'utf8').replaceAll('\r\n', '\n')
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf('script', body)}`,
    `style-src ${hashOf('style', body)}`,
    'img-src data:',
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ')
  const headers = ['Content-Security-Policy', policy, 'Referrer-Policy', 'no-referrer']
  return { status: 200, type: 'text/html; charset=utf-8', headers, body }
}

/** The CSP source expression of the one element with this name (CSP Level 3 §2.3.1). */
function hashOf(name: string, html: string): string {
  const [, text = ''] = new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(html) ?? []
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

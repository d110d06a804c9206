import { crypto, fs } from '../builtins.ts'
import type { Reply } from '../http/reply.ts'

const FILE = new URL('page.html', import.meta.url)

// What the npm package has in its place, which is for test suites, and to be small.
const PLAIN = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Pet store</title>
<style>body { font: 1rem/1.5 system-ui; margin: 2rem; max-width: 40rem; color-scheme: light dark }</style>
<h1>Pet store</h1>
<p>An HTTP interface to list, add and fetch animals, described in <a href="/openapi.json">/openapi.json</a>. Every call needs
<code>Authorization: Bearer &lt;API_KEY&gt;</code>. Fetching one animal by its id is deprecated: use the list.</p>
</html>
`

let reply: Reply | undefined

/** GET /: the page for people; the `deprecation` link of getPet leads here. */
export function page(): Reply {
  // On the first request, so that a start pays nothing for it.
  reply ??= readPage()
  return reply
}

function readPage(): Reply {
  const html = fs.existsSync(FILE) ? fs.readFileSync(FILE, 'utf8') : PLAIN
  // A browser hashes what it has parsed, where a line ends in LF, however the file was checked out.
  const body = html.replaceAll('\r\n', '\n')
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
  ]
  const fields = ['Content-Security-Policy', policy.join('; '), 'Referrer-Policy', 'no-referrer']
  return { status: 200, type: 'text/html; charset=utf-8', fields, body }
}

/** The source expression of the one element with this name (CSP Level 3 §2.3.1). */
function hashOf(name: string, html: string): string {
  const [, text = ''] = new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(html) ?? []
  return `'sha256-${crypto.createHash('sha256').update(text).digest('base64')}'`
}

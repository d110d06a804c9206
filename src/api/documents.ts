import { readFileSync } from 'node:fs'
import type { Reply } from '../http/reply.ts'
import type { Handler } from '../http/router.ts'

/** GET /openapi.json. */
export function openapi(basePath: string): Handler {
  const reply: Reply = { status: 200, body: readText('openapi.json', basePath || '/') }
  return async () => reply
}

/** GET /: the page for people. */
export function homePage(basePath: string): Handler {
  const headers = { 'content-type': 'text/html; charset=utf-8' }
  const reply: Reply = { status: 200, headers, body: readText('page.html', basePath) }
  return async () => reply
}

/** A file next to this one, with the base path in its only place. */
function readText(name: string, basePath: string): string {
  return readFileSync(`${__dirname}/${name}`, 'utf8').replace('"/v1"', `"${basePath}"`)
}

import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Reply } from '../http/respond.ts'
import type { Handler } from '../http/router.ts'
import type { GetPetState } from '../types.ts'
import type { Context } from './operations.ts'

/** The parts of openapi.json that vary. */
interface Document {
  paths: { '/pets/{petId}': { get: { responses: Record<string, unknown> } } }
  components: { headers: Record<string, unknown>; schemas: { NewPet: object } }
}

/** GET /openapi.json, read on the first request. */
export function openapi(context: Context): Handler {
  const replies: Partial<Record<GetPetState, Reply>> = {}
  return () => {
    const { getPetState } = context
    replies[getPetState] ??= { status: 200, body: documentOf(context) }
    return replies[getPetState]
  }
}

/** Leaves out what does not apply. In the file, `/v1` is always the base path. */
function documentOf({ basePath, strict, getPetState }: Context): string {
  const json = readText('openapi.json')
    .replace('"url": "/v1"', `"url": "${basePath || '/'}"`)
    .replaceAll('/v1', basePath)
    .replaceAll(INT64_BOUND, '$1"$2"')
  const document: Document = JSON.parse(json)
  const { responses } = document.paths['/pets/{petId}'].get
  const { headers, schemas } = document.components
  const isGone = getPetState === 'gone'
  for (const status of isGone ? [200, 404] : [410]) delete responses[status]
  if (isGone) delete headers['Deprecation'] // only those had it
  if (strict) Object.assign(schemas.NewPet, { additionalProperties: false })
  return JSON.stringify(document).replaceAll(INT64_BOUND_AS_TEXT, '$1$2')
}

// JSON.parse would round these, and no reader of int64 takes 9223372036854776000.
const INT64_BOUND = /("(?:min|max)imum": )(-?\d{19})/g
const INT64_BOUND_AS_TEXT = /("(?:min|max)imum":)"(-?\d{19})"/g

/** GET /: the page, read on the first request. `data-any-key` tells its script to make up a key. */
export function homePage({ keyring }: Pick<Context, 'keyring'>): Handler {
  let reply: ReturnType<typeof readPage> | undefined
  return () => {
    reply ??= readPage()
    if (!keyring.isAnyKeyValid) return reply
    return { ...reply, body: reply.body.replace('<html', '<html data-any-key') }
  }
}

const OTHER_SOURCES =
  "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

function readPage(): Reply & { body: string } {
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
  return `'sha256-${hash('sha256', text, 'base64')}'`
}

// The build puts these files into its bundle, by texts.js. Other bundlers would leave them behind.
declare const BUNDLED_TEXTS: Readonly<Record<'openapi.json' | 'page.html', string>> | undefined

function readText(name: 'openapi.json' | 'page.html'): string {
  if (typeof BUNDLED_TEXTS !== 'undefined') return BUNDLED_TEXTS[name]
  return readFileSync(`${import.meta.dirname}/${name}`, 'utf8')
}

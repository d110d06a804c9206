import type { Awaitable, Reply } from './respond.ts'

export interface Call {
  readonly param: string // the decoded segment in place of the route's `{braces}`, or empty
  readonly query: string // undecoded, without its question mark
  readonly body: Buffer
  readonly signal?: AbortSignal | undefined // aborted when an in-process client leaves
}

/** An operation: replies, or hangs up with undefined. Whatever it throws is a bug, hence a 500. */
export type Handler = (call: Call) => Awaitable<Reply | undefined>

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string // percent-decoded; a last segment `{name}` matches any that is not empty
  readonly operation: string
  handle: Handler
  readonly takesBody?: true
  readonly isPublic?: true // the path is outside the base path and needs no key
  readonly isQuiet?: true // requests are not logged: a probe comes every few seconds
}

/** Where a path leads: whether it needs a key, and what is there, if anything. */
export interface Match {
  readonly secured: boolean
  readonly routes: ReadonlyMap<string, Route> | undefined
  readonly allow: string
  readonly param: string
}

/**
 * Path and query of a target in origin-form or absolute-form (RFC 9112 §3.2). The path of any other
 * target does not start with a slash.
 */
export function readTarget(target: string): { path: string; query: string } {
  const origin = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]+\/?/i, '/')
  const mark = origin.indexOf('?')
  return mark < 0
    ? { path: origin, query: '' }
    : { path: origin.slice(0, mark), query: origin.slice(mark + 1) }
}

/** Finds the resource of a path: exact and case-sensitive, after percent-decoding each segment. */
export class Router {
  readonly allow: string // every method that some resource has
  readonly #basePath: string
  readonly #matches = new Map<string, Match>() // by path; a bare % stands for the parameter

  constructor(table: readonly Route[], basePath: string) {
    this.#basePath = basePath
    this.allow = allowOf(table)
    this.#matches.set('*', { secured: false, routes: new Map(), allow: this.allow, param: '' })
    for (const { path, isPublic = false } of table) {
      const same = table.filter((route) => route.path === path)
      const routes = new Map(same.map((route) => [route.method, route]))
      const whole = (isPublic ? path : basePath + path).replace(/\{.*/, '%')
      this.#matches.set(whole, { secured: !isPublic, routes, allow: allowOf(same), param: '' })
    }
  }

  match(path: string): Match {
    const decoded = path.includes('%') ? decodePath(path) : path
    const match = this.#matches.get(decoded)
    if (match !== undefined) return match
    const start = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(start)
    const item = param === '' ? undefined : this.#matches.get(`${decoded.slice(0, start)}%`)
    if (item === undefined) {
      const secured = `${decoded}/`.startsWith(`${this.#basePath}/`)
      return { secured, routes: undefined, allow: '', param }
    }
    return { ...item, param: param.includes('%') ? decodeURIComponent(param) : param }
  }
}

function allowOf(routes: readonly Route[]): string {
  const methods = new Set<string>(['OPTIONS', ...routes.map(({ method }) => method)])
  if (methods.has('GET')) methods.add('HEAD')
  return [...methods].sort().join(', ')
}

/** Decodes each segment, up to the first that cannot be decoded: nothing is there. */
function decodePath(path: string): string {
  let decoded = ''
  for (const segment of path.slice(1).split('/')) {
    try {
      decoded += `/${decodeSegment(segment)}`
    } catch {
      return `${decoded}//`
    }
  }
  return decoded
}

/** Decodes all but slashes and percent signs: they would look like separators and escapes. */
function decodeSegment(segment: string): string {
  return decodeURIComponent(segment).replace(/[%/]/g, encodeURIComponent)
}

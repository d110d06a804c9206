import type { Awaitable, Reply } from './reply.ts'

export interface Call {
  readonly param: string // the decoded segment in place of the route's `{braces}`; empty without them
  readonly query: string // undecoded, without its question mark
  readonly body: Buffer
  readonly signal?: AbortSignal | undefined // aborted when the client no longer waits, if that can be known
}

/** An operation: from request to reply, or undefined to hang up. Whatever it throws is a bug and becomes a 500. */
export type Handler = (call: Call) => Awaitable<Reply | undefined>

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string // percent-decoded; `{name}`, as the last segment, matches any that is not empty
  readonly operation: string
  handle: Handler
  readonly takesBody?: true
  readonly open?: true // the path is outside the base path and needs no key
  readonly isQuiet?: true // requests are not logged: a probe comes every few seconds
}

/** Where a path leads: whether it needs a key, and what is there, if anything. */
export interface Match {
  readonly secured: boolean
  readonly routes: ReadonlyMap<string, Route> | undefined
  readonly allow: string
  readonly param: string
}

/** Path and query of a target in origin-form or absolute-form (RFC 9112 §3.2); no path if no slash is in front. */
export function readTarget(target: string): { path: string; query: string } {
  const origin = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?#]+\/?/i, '/')
  const mark = origin.indexOf('?')
  return mark < 0 ? { path: origin, query: '' } : { path: origin.slice(0, mark), query: origin.slice(mark + 1) }
}

/** Finds the resource of a path: exact and case-sensitive, after percent-decoding each segment. */
export class Router {
  readonly allow: string // every method that some resource has
  readonly #basePath: string
  readonly #matches = new Map<string, Match>() // by path; % stands for the parameter, as no decoded path has one

  constructor(table: readonly Route[], basePath: string) {
    this.#basePath = basePath
    this.allow = allowOf(table)
    this.#matches.set('*', { secured: false, routes: new Map(), allow: this.allow, param: '' })
    for (const { path, open } of table) {
      const same = table.filter((route) => route.path === path)
      const routes = new Map(same.map((route) => [route.method, route]))
      const whole = (open ? path : basePath + path).replace(/\{.*/, '%')
      this.#matches.set(whole, { secured: !open, routes, allow: allowOf(same), param: '' })
    }
  }

  match(path: string): Match {
    const decoded = path.includes('%') ? path.replace(/[^/]+/g, decodeSegment) : path
    const match = this.#matches.get(decoded)
    if (match !== undefined) return match
    const cut = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(cut)
    const item = param === '' ? undefined : this.#matches.get(`${decoded.slice(0, cut)}%`)
    if (item !== undefined) return { ...item, param: param.includes('%') ? decodeURIComponent(param) : param }
    return { secured: `${decoded}/`.startsWith(`${this.#basePath}/`), routes: undefined, allow: '', param }
  }
}

function allowOf(routes: readonly Route[]): string {
  const methods = new Set<string>(['OPTIONS', ...routes.map(({ method }) => method)])
  if (methods.has('GET')) methods.add('HEAD')
  return [...methods].sort().join(', ')
}

/** Decodes all but slashes and percent signs: those would be taken for separators and escapes of the path. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment).replace(/[%/]/g, encodeURIComponent)
  } catch {
    return '//' // no path with an empty segment leads anywhere
  }
}

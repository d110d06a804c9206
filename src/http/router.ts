import type { Awaitable, Reply } from './reply.ts'

/** A request as an operation sees it. */
export interface Call {
  /** The decoded segment in place of the route's `{braces}`; empty without them. */
  readonly param: string
  /** The query, undecoded, without its question mark. */
  readonly query: string
  readonly body: Buffer
  /** Aborted when the client no longer waits; absent if that cannot be known. */
  readonly signal?: AbortSignal | undefined
}

/** An operation: from request to reply. Whatever it throws is a bug and becomes a 500. */
export type Handler = (call: Call) => Awaitable<Reply>

/** A row of the table of routes. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Segments as they are after percent-decoding; `{name}`, as the last one, matches any that is not empty. */
  readonly path: string
  readonly operation: string
  handle: Handler
  readonly takesBody?: true
  /** The path is outside the base path and needs no key. */
  readonly open?: true
  /** Requests are not logged: a probe comes every few seconds. */
  readonly isQuiet?: true
}

/** Where a path leads: whether it needs a key, and what is there, if anything. */
export interface Match {
  readonly secured: boolean
  readonly routes: ReadonlyMap<string, Route> | undefined
  /** The methods of the routes, as `Allow` lists them. */
  readonly allow: string
  readonly param: string
}

const ABSOLUTE_FORM = /^https?:\/\/[^/?#]+\/?/i

/** The path, or `*`, and the query of a request target (RFC 9112 §3.2); undefined if it has another form. */
export function readTarget(target: string): { path: string; query: string } | undefined {
  const origin = target.startsWith('/') ? target : target.replace(ABSOLUTE_FORM, '/')
  if (!origin.startsWith('/') && origin !== '*') return undefined
  const mark = origin.indexOf('?')
  return mark < 0 ? { path: origin, query: '' } : { path: origin.slice(0, mark), query: origin.slice(mark + 1) }
}

/** Finds the resource of a path: exact and case-sensitive, after percent-decoding each segment. */
export class Router {
  /** Every method that some resource has, for the `Allow` of `OPTIONS *`. */
  readonly allow: string
  readonly #basePath: string
  readonly #matches = new Map<string, Match>()
  /** The resources of a path with a parameter, by what stands before it. */
  readonly #items = new Map<string, Match>()

  constructor(table: readonly Route[], basePath: string) {
    this.#basePath = basePath
    this.allow = allowOf(table)
    for (const path of new Set(table.map((route) => route.path))) {
      const routes = table.filter((route) => route.path === path)
      const methods = new Map(routes.map((route) => [route.method, route]))
      const secured = !routes[0]?.open
      const match = { secured, routes: methods, allow: allowOf(routes), param: '' }
      const [parent, parameter] = (secured ? basePath + path : path).split('{')
      if (parent !== undefined) (parameter === undefined ? this.#matches : this.#items).set(parent, match)
    }
  }

  match(path: string): Match {
    const decoded = path.includes('%') ? path.replace(/[^/]+/g, decodeSegment) : path
    const match = this.#matches.get(decoded)
    if (match !== undefined) return match
    const cut = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(cut)
    const item = param === '' ? undefined : this.#items.get(decoded.slice(0, cut))
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

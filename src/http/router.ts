import type { Awaitable } from '../guards.ts'
import type { HangUp, Reply } from './respond.ts'

export interface Call {
  readonly param: string // the last segment of the path: `{petId}`, where the route has it
  readonly query: string // undecoded, without its question mark
  readonly body: Buffer
  endDelay?: (() => void) | undefined // there while the operation waits only for time to pass
  onLeave?: (() => void) | undefined // ends an operation that only waits for other requests
  readonly head: object // the same for all that handles a request, so that it is told from others
}

/** An operation: replies, or hangs up. If it throws, that is a bug: a 500. */
export type Handler = (call: Call) => Awaitable<Reply | HangUp>

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string // percent-decoded; a last segment `{name}` matches any that is not empty
  readonly operation: string
  handle: Handler // faults and `strict` decorate it
  readonly scope: 'base' | 'root' // under the base path, or outside it and without a key
  readonly isProbe?: boolean | undefined // not logged or recorded: it comes every few seconds
}

interface RouteMatch extends Omit<Call, 'body' | 'head'> {
  readonly secured: boolean // needs a key
  readonly routes: Map<string, Route> | undefined // by method; undefined if nothing is there
  readonly route: Route | undefined // GET's for a HEAD
}

/** Path and query of a target in origin-form or absolute-form (RFC 9112 §3.2). */
export function readTarget(target: string): { path: string; query: string } {
  const originForm = target.replace(/^https?:\/\/[^/?#]+\/?/i, '/')
  const mark = originForm.indexOf('?')
  if (mark < 0) return { path: originForm, query: '' }
  return { path: originForm.slice(0, mark), query: originForm.slice(mark + 1) }
}

export interface Router {
  readonly allow: string // for `OPTIONS *`: the methods of all resources
  readonly place: string // where the operations are
  /** Matches exactly and case-sensitively, after percent-decoding each segment. */
  find(method: string, target: string): RouteMatch
}

export function createRouter(
  table: readonly Route[],
  base: string,
  place: string = base || '/',
): Router {
  // By path, with % for its parameter: a decoded path has no bare %, only %25 and %2F.
  const resources = new Map<string, Map<string, Route>>()
  for (const route of table) {
    const start = route.scope === 'base' ? base : ''
    const fullPath = (start + route.path).replace(/\{\w+\}$/, '%')
    const routes = resources.get(fullPath) ?? new Map<string, Route>()
    routes.set(route.method, route)
    resources.set(fullPath, routes)
  }
  const prefix = `${base}/`

  function find(method: string, target: string): RouteMatch {
    const { path, query } = readTarget(target)
    const decoded = path.includes('%') ? decodePath(path) : path
    const start = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(start)
    let routes = resources.get(decoded)
    if (!routes && param !== '') routes = resources.get(`${decoded.slice(0, start)}%`)
    const route = routes?.get(method === 'HEAD' ? 'GET' : method)
    // A path that leads to nothing is secured if it is under the base path, which may be empty.
    const some = route ?? routes?.values().next().value
    const secured = some ? some.scope === 'base' : decoded === base || decoded.startsWith(prefix)
    return { query, param, secured, routes, route }
  }

  return { allow: allowOf(table.map(({ method }) => method)), place, find }
}

/** The value of an `Allow` header: these methods, OPTIONS, and HEAD where there is GET. */
export function allowOf(methods: Iterable<string>): string {
  const all = new Set(['OPTIONS', ...methods])
  if (all.has('GET')) all.add('HEAD')
  return [...all].sort().join(', ')
}

/**
 * Decodes all but slashes and percent signs, which would look like separators and escapes. A path
 * that cannot be decoded ends with a slash, so that it leads to nothing.
 */
function decodePath(path: string): string {
  try {
    return decodeURIComponent(path.replace(/%(?=2f|25)/gi, '%25'))
  } catch {
    return `${path}/`
  }
}

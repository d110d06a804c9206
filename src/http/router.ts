import type { Awaitable } from '../guards.ts'
import type { Reply } from './respond.ts'

export interface Call {
  readonly param: string // the last segment of the path: `{petId}`, where the route has it
  readonly query: string // undecoded, without its question mark
  readonly body: Buffer
}

/** An operation: replies, or hangs up with undefined. If it throws, that is a bug: a 500. */
export type Handler = (call: Call) => Awaitable<Reply | undefined>

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string // percent-decoded; a last segment `{name}` matches any that is not empty
  readonly operation: string
  handle: Handler // faults and `strict` decorate it
  /** Outside the base path and without a key. A probe is not logged: it comes every few seconds. */
  readonly access?: 'public' | 'probe' | undefined
}

/** What a request leads to. */
interface RouteMatch extends Omit<Call, 'body'> {
  readonly secured: boolean // under the base path
  readonly routes: Map<string, Route> | undefined // by method; undefined if nothing is there
  readonly route: Route | undefined // that of GET for a HEAD
}

/** Path and query of a target in origin-form or absolute-form (RFC 9112 §3.2). */
export function readTarget(target: string): { path: string; query: string } {
  const originForm = target.replace(/^https?:\/\/[^/?#]+\/?/i, '/')
  const mark = originForm.indexOf('?')
  if (mark < 0) return { path: originForm, query: '' }
  return { path: originForm.slice(0, mark), query: originForm.slice(mark + 1) }
}

/** Finds the resource of a path: exact and case-sensitive, after percent-decoding each segment. */
export class Router {
  readonly allow: string // every method that some resource has
  readonly basePath: string
  readonly #prefix: string
  // By path, `%` for its parameter: decodePath() leaves a % only in %25 and %2F, never alone.
  readonly #resources = new Map<string, Map<string, Route>>()

  constructor(table: readonly Route[], basePath: string) {
    this.allow = allowOf(table.map(({ method }) => method))
    this.basePath = basePath
    this.#prefix = `${basePath}/`
    for (const route of table) {
      const base = route.access === undefined ? basePath : ''
      const fullPath = (base + route.path).replace(/\{\w+\}$/, '%')
      const routes = this.#resources.get(fullPath) ?? new Map<string, Route>()
      routes.set(route.method, route)
      this.#resources.set(fullPath, routes)
    }
  }

  find(method: string, target: string): RouteMatch {
    const { path, query } = readTarget(target)
    const decoded = path.includes('%') ? decodePath(path) : path
    const start = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(start)
    let routes = this.#resources.get(decoded)
    if (routes === undefined && param !== '')
      routes = this.#resources.get(`${decoded.slice(0, start)}%`)
    const route = routes?.get(method === 'HEAD' ? 'GET' : method)
    const secured = decoded === this.basePath || decoded.startsWith(this.#prefix)
    return { query, param, secured, routes, route }
  }
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

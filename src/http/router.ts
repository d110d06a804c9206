import type { Awaitable } from '../pets/store.ts'

/** What an operation gets: a request without its connection. */
export interface Asked {
  readonly query: string // as it was sent, without its question mark
  readonly param: string // the last segment of the path, decoded: `{petId}`, where the route has it
  readonly body: Buffer // empty if the operation takes none
}

/** What an operation returns: a response without its connection. */
export interface Reply {
  readonly status: number
  readonly headers?: readonly string[] // beyond those of all: name, value, name, value …
  readonly body?: string // absent if the response has no content
  readonly type?: string // of the body; JSON by default
  readonly error?: { readonly code: string; readonly message: string } // in the body
  readonly cause?: unknown // of the failure, for the log alone
  readonly hangUp?: true | 'reset' | 'halfway' | 'stalled' // what a test does to the connection
}

/** An operation. If it throws, that is a 500. */
export type Handler = (asked: Asked) => Awaitable<Reply>

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string // percent-decoded; a last segment `{name}` matches any that is not empty
  readonly operation: string
  readonly handle: Handler
  readonly isSecured: boolean // under the base path, and with a key
  readonly isProbe?: boolean // it comes every few seconds
}

/** What is at a path. */
interface Resource {
  readonly isSecured: boolean
  readonly routes: Map<string, Route> // by method; empty if nothing is there
}

/** The routes by path. Matches exactly and case-sensitively, after percent-decoding. */
export class Router {
  readonly base: string
  readonly allow: string // for `OPTIONS *`: the methods of all routes
  // By path, with % for its parameter: a decoded path has no bare %, only %25 and %2F.
  readonly #resources = new Map<string, Resource>()

  constructor(table: readonly Route[], base: string) {
    this.base = base
    this.allow = allowOf(table.map(({ method }) => method))
    for (const route of table) {
      const { isSecured } = route
      const path = (isSecured ? base : '') + route.path.replace(/\{\w+\}$/, '%')
      const resource = this.#resources.get(path) ?? { isSecured, routes: new Map() }
      resource.routes.set(route.method, route)
      this.#resources.set(path, resource)
    }
  }

  find(path: string): Resource & { readonly param: string } {
    const decoded = path.includes('%') ? decodePath(path) : path
    const start = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(start)
    let resource = this.#resources.get(decoded)
    if (!resource && param !== '') resource = this.#resources.get(`${decoded.slice(0, start)}%`)
    // A path that leads to nothing is secured if it is under the base path, which may be empty.
    const isUnderBase = decoded === this.base || decoded.startsWith(`${this.base}/`)
    const { routes, isSecured } = resource ?? { routes: new Map(), isSecured: isUnderBase }
    return { routes, isSecured, param }
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

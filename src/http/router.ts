import type { IncomingHttpHeaders } from 'node:http'
import type { Reply } from './reply.ts'

/** A request without its connection. */
export interface Request {
  readonly operation: string | undefined // undefined if path and method name none
  readonly method: string
  readonly path: string // as it was sent
  readonly query: string // as it was sent, without its question mark
  readonly headers: IncomingHttpHeaders
  readonly remote: string // the client's address, which the socket forgets when the client leaves
  readonly started: number // when its head arrived
  keyIndex: number | undefined // the place of its key in the list, once that was checked
  body: Buffer // empty until it is read
}

/**
 * An operation. What it throws becomes an error of the table: see `failureReply`. Without a reply,
 * the connection ends.
 */
export type Handler = (request: Request) => Promise<Reply | undefined>

export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string // a last segment `*` matches any
  readonly operation: string
  readonly isSecured: boolean // under the base path, and checked by `authorize`
  readonly handle: Handler
}

/** What is at a path. */
export interface Resource {
  readonly isSecured: boolean
  readonly routes: Map<string, Route> // by method; empty if nothing is there
}

/** Finds what is at a path, which must match exactly: nothing is decoded. */
export function createRouter(routes: readonly Route[], base: string): (path: string) => Resource {
  const resources = new Map<string, Resource>()
  for (const route of routes) {
    const { isSecured, method } = route
    const path = (isSecured ? base : '') + route.path
    const resource = resources.get(path) ?? { isSecured, routes: new Map() }
    resource.routes.set(method, route)
    resources.set(path, resource)
  }
  return (path) => {
    const end = path.lastIndexOf('/') + 1
    const parameterized = end < path.length ? `${path.slice(0, end)}*` : path
    const found = resources.get(path) ?? resources.get(parameterized)
    if (found) return found
    // Nothing is there. Under the base path, only an authorized client learns that.
    const isUnderBase = path === base || path.startsWith(`${base}/`)
    return { isSecured: isUnderBase, routes: new Map() }
  }
}

/** The value of an `Allow` header: these methods, OPTIONS, and HEAD where there is GET. */
export function allowOf(methods: Iterable<string>): string {
  const all = new Set(['OPTIONS', ...methods])
  if (all.has('GET')) all.add('HEAD')
  return [...all].sort().join(', ')
}

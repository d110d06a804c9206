import type { Awaitable } from '../guards.ts'
import type { Reply } from './respond.ts'

export interface Call {
  readonly param: string // the segment in place of the route's `{braces}`, or empty
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

/** What a path leads to. */
interface Match extends Pick<Call, 'param'> {
  readonly secured: boolean // under the base path
  readonly routes: Map<string, Route> | undefined // by method; undefined if nothing is there
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
  // By decoded path, with a % for the parameter. decodeSegment() leaves % only in %25 and %2F.
  readonly #resources = new Map<string, Match>()

  constructor(table: readonly Route[], basePath: string) {
    this.allow = allowOf(table.map(({ method }) => method))
    this.basePath = basePath
    for (const route of table) {
      const secured = route.access === undefined
      const fullPath = (secured ? basePath + route.path : route.path).replace(/\{\w+\}$/, '%')
      const routes = this.#resources.get(fullPath)?.routes ?? new Map<string, Route>()
      routes.set(route.method, route)
      this.#resources.set(fullPath, { secured, routes, param: '' })
    }
  }

  match(path: string): Match {
    const decoded = path.includes('%') ? decodePath(path) : path
    const resource = this.#resources.get(decoded)
    if (resource !== undefined) return resource
    const start = decoded.lastIndexOf('/') + 1
    const param = decoded.slice(start)
    const parent = param === '' ? undefined : this.#resources.get(`${decoded.slice(0, start)}%`)
    if (parent !== undefined) return { ...parent, param }
    const secured = `${decoded}/`.startsWith(`${this.basePath}/`)
    return { secured, routes: undefined, param }
  }
}

/** The value of an `Allow` header: these methods, and those that a resource has anyway. */
export function allowOf(methods: Iterable<string>): string {
  const all = new Set(['OPTIONS', ...methods])
  if (all.has('GET')) all.add('HEAD')
  return [...all].sort().join(', ')
}

/** Decodes up to the first segment that cannot be: each makes V8 throw, which takes long. */
function decodePath(path: string): string {
  let isValid = true
  return path.replace(/[^/]+/g, (segment) => {
    const decoded = isValid ? decodeSegment(segment) : segment
    isValid &&= decoded !== '/'
    return decoded
  })
}

/**
 * Decodes all but slashes and percent signs, which would look like separators and escapes. A
 * segment that cannot be decoded becomes a slash, so that it matches nothing.
 */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment).replace(/[%/]/g, encodeURIComponent)
  } catch {
    return '/'
  }
}

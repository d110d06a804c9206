import type { Reply } from './reply.ts'

/** A request as an operation sees it. */
export interface Call {
  /** The decoded segments that stand in the route's {braces}. */
  readonly params: Readonly<Record<string, string>>
  /** The query component, undecoded, without its question mark. */
  readonly query: string
  /** The content; empty unless the route takes one. */
  readonly body: Uint8Array
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignal | undefined
}

/** A reply, now or later. */
export type Answer = Reply | Promise<Reply>

/** An operation: a function from request to reply. It may throw only by mistake; that is answered 500. */
export type Handler = (call: Call) => Answer

/** A row of the table of routes. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Segments as they are after percent-decoding; `{name}` matches any one segment that is not empty. */
  readonly path: string
  /** The contract's operationId. */
  readonly operation: string
  readonly handle: Handler
  /** The operation takes a JSON body. */
  readonly takesBody?: true
  /** The path stands outside the base path and needs no key. */
  readonly open?: true
  /** Its requests are not recorded: a probe asks every few seconds. */
  readonly isQuiet?: true
}

/** The routes of one path: by method, and the methods as an `Allow` field lists them. */
export interface Resource {
  readonly routes: ReadonlyMap<string, Route>
  readonly allow: string
}

/** What a path leads to: whether it needs a key, and the resource there, if there is one. */
export interface Match {
  readonly secured: boolean
  readonly resource?: Resource
  readonly params: Readonly<Record<string, string>>
}

/** A request target, taken apart (RFC 9112 §3.2). */
export interface Target {
  /** The path, or `*`. */
  readonly path: string
  readonly query: string
}

const ABSOLUTE_FORM = /^https?:\/\/[^/?#]+/i
const NO_PARAMS = {}

/** Takes origin-form, absolute-form or `*` apart; undefined for any other request target. */
export function readTarget(target: string): Target | undefined {
  let origin = target
  if (!target.startsWith('/')) {
    if (target === '*') return { path: '*', query: '' }
    if (!ABSOLUTE_FORM.test(target)) return undefined
    origin = target.replace(ABSOLUTE_FORM, '')
    if (!origin.startsWith('/')) origin = `/${origin}`
  }
  const mark = origin.indexOf('?')
  return mark < 0 ? { path: origin, query: '' } : { path: origin.slice(0, mark), query: origin.slice(mark + 1) }
}

/** Leads from paths to resources: exact and case-sensitive, after percent-decoding each segment. */
export class Router {
  /** Every method that some resource has, for the `Allow` field of `OPTIONS *`. */
  readonly allow: string
  readonly #base: readonly string[]
  readonly #fixed = new Map<string, Match>()
  readonly #patterns: { segments: readonly string[]; match: Match }[] = []

  constructor(table: readonly Route[], basePath: string) {
    this.#base = basePath.split('/')
    this.allow = allowOf(table)
    const byPath = new Map<string, Route[]>()
    for (const route of table) {
      const path = route.open ? route.path : basePath + route.path
      byPath.set(path, [...(byPath.get(path) ?? []), route])
    }
    for (const [path, routes] of byPath) {
      const methods = new Map(routes.map((route) => [route.method, route]))
      const resource = { routes: methods, allow: allowOf(routes) }
      const match = { secured: !routes[0]?.open, resource, params: NO_PARAMS }
      this.#patterns.push({ segments: path.split('/'), match })
      if (!path.includes('{')) this.#fixed.set(path, match)
    }
  }

  match(path: string): Match {
    const fixed = this.#fixed.get(path)
    if (fixed !== undefined) return fixed
    const segments = path.split('/').map(decodeSegment)
    for (const { segments: pattern, match } of this.#patterns) {
      const params = bind(pattern, segments)
      if (params !== undefined) return { ...match, params }
    }
    return { secured: this.#base.every((segment, at) => segment === segments[at]), params: NO_PARAMS }
  }
}

function allowOf(routes: readonly Route[]): string {
  const methods = new Set<string>(['OPTIONS'])
  for (const { method } of routes) methods.add(method)
  if (methods.has('GET')) methods.add('HEAD')
  return [...methods].sort().join(', ')
}

/** A segment with its percent-escapes decoded; undefined, which matches nothing, where one cannot be. */
function decodeSegment(segment: string): string | undefined {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}

/** The parameters that make the pattern these segments, or undefined where none do. */
function bind(
  pattern: readonly string[],
  segments: readonly (string | undefined)[],
): Record<string, string> | undefined {
  if (pattern.length !== segments.length) return undefined
  const params: Record<string, string> = {}
  for (const [at, expected] of pattern.entries()) {
    const segment = segments[at]
    if (segment === undefined) return undefined
    if (expected.startsWith('{') && segment !== '') params[expected.slice(1, -1)] = segment
    else if (segment !== expected) return undefined
  }
  return params
}

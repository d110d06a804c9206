import type { IncomingHttpHeaders } from 'node:http'
import type { Keyring } from './bearer.ts'
import { bodyProblem, preflightHeaders } from './headers.ts'
import type { Awaitable, Refuse, Reply } from './reply.ts'
import { type Call, readTarget, type Route, type Router } from './router.ts'

/** All that is known of a request before its body. */
export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly headers: IncomingHttpHeaders
  readonly signal?: AbortSignal
}

/** Where a request head leads: to a reply, or to an operation that needs the body first. */
export interface Dispatched {
  readonly route?: Route | undefined
  readonly wantsBody: boolean
  /** Never rejects. */
  readonly reply: (body?: Buffer) => Awaitable<Reply>
}

export interface RequestRecord {
  /** Absent if the request could not be read. */
  readonly head?: RequestHead
  readonly operation?: string | undefined
  /** The body, if one was wanted and read. */
  readonly content?: Uint8Array | undefined
  /** Absent if the connection ended before a response. */
  readonly status?: number | undefined
  /** Milliseconds from the head of the request to its response. */
  readonly ms: number
  readonly bytes: number
  readonly remote?: string | undefined
}

/** What serves requests, however they come in: over a socket, through a user's own server, in process. */
export interface Service {
  readonly router: Router
  /** Absent if no path needs a key. */
  readonly keyring?: Keyring
  /** The origin whose scripts may call, or `*`. */
  readonly cors?: string | undefined
  readonly maxBody: number
  readonly refuse: Refuse
  /** Receives whatever an operation throws: the client learns nothing of it. */
  readonly onBug: (error: unknown) => void
  /** Receives every request; nothing is collected if it is absent. */
  readonly record?: ((request: RequestRecord) => void) | undefined
}

const NO_BODY = Buffer.alloc(0)

/** Takes a request through the checks in their order: key, path, method, media type, size. */
export function dispatch(service: Service, { method, target, headers, signal }: RequestHead): Dispatched {
  const { router, keyring, cors, maxBody, refuse } = service
  const { path, query } = readTarget(target) ?? { path: '', query: '' }
  if (path === '' || (path === '*' && method !== 'OPTIONS')) return done(refuse('badTarget'))
  if (path === '*') return done(allowing(router.allow))
  const { secured, routes, allow, param } = router.match(path)
  const route = routes?.get(method === 'HEAD' ? 'GET' : method)
  if (method === 'OPTIONS') return done(routes ? allowing(allow, cors && headers) : refuse('notFound'))
  const unauthorized = secured ? keyring?.check(headers.authorization) : undefined
  if (unauthorized !== undefined) return done(refuse(unauthorized), route)
  if (routes === undefined) return done(refuse('notFound'))
  if (route === undefined) return done(refuse('methodNotAllowed', allow))
  const reply = (body: Buffer = NO_BODY) => call(service, route, { param, query, body, signal })
  if (!route.takesBody) return { route, reply, wantsBody: false }
  const problem = bodyProblem(headers, maxBody)
  return problem === undefined ? { route, reply, wantsBody: true } : done(refuse(problem, `${maxBody}`), route)
}

function call({ onBug, refuse }: Service, route: Route, request: Call): Awaitable<Reply> {
  const fail = (error: unknown) => {
    onBug(error)
    return refuse('internalError')
  }
  try {
    const reply = route.handle(request)
    return reply instanceof Promise ? reply.catch(fail) : reply
  } catch (error) {
    return fail(error)
  }
}

/** For a request that is answered without its body. */
export function done(reply: Reply, route?: Route): Dispatched {
  return { route, wantsBody: false, reply: () => reply }
}

function allowing(allow: string, headers?: IncomingHttpHeaders | ''): Reply {
  return { status: 204, headers: ['Allow', allow, ...(headers ? preflightHeaders(allow, headers) : [])] }
}

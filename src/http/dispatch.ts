import type { IncomingHttpHeaders } from 'node:http'
import type { Keyring } from './bearer.ts'
import { bodyProblem, optionsHeaders } from './headers.ts'
import type { Refuse, Reply } from './reply.ts'
import { type Call, type Handler, readTarget, type Route, type Router } from './router.ts'

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
  readonly reply: (body?: Buffer) => ReturnType<Handler> // never rejects
}

export interface RequestRecord {
  readonly head?: RequestHead // absent if the request could not be read
  readonly operation?: string | undefined
  readonly content?: Uint8Array | undefined // the body, if one was wanted and read
  readonly status?: number | undefined // absent if the connection ended before a response
  readonly ms: number // from the head of the request to its response
  readonly bytes: number
  readonly remote?: string | undefined
}

/** What serves requests, however they come in: over a socket, through a user's own server, in process. */
export interface Service {
  readonly router: Router
  readonly keyring?: Keyring // absent if no path needs a key
  readonly cors?: string | undefined // the origin whose scripts may call, or `*`
  readonly maxBody: number
  readonly refuse: Refuse
  readonly onBug: (error: unknown) => void // receives whatever an operation throws: the client learns nothing of it
  readonly record?: ((request: RequestRecord) => void) | undefined // nothing is collected without it
}

const NO_BODY = Buffer.alloc(0)

/** Takes a request through the checks in their order: key, path, method, media type, size. */
export function dispatch(service: Service, { method, target, headers, signal }: RequestHead): Dispatched {
  const { router, keyring, cors, maxBody, refuse } = service
  const { path, query } = readTarget(target)
  if (!path.startsWith('/') && !(target === '*' && method === 'OPTIONS')) return done(refuse('badTarget'))
  const { secured, routes, allow, param } = router.match(path)
  const route = routes?.get(method === 'HEAD' ? 'GET' : method)
  const unauthorized = secured && method !== 'OPTIONS' ? keyring?.check(headers.authorization) : undefined
  if (unauthorized !== undefined) return done(refuse(unauthorized), route)
  if (routes === undefined) return done(refuse('notFound'))
  if (method === 'OPTIONS') return done({ status: 204, headers: optionsHeaders(allow, headers, cors) })
  if (route === undefined) return done(refuse('methodNotAllowed', allow))
  const reply = (body: Buffer = NO_BODY) => call(service, route, { param, query, body, signal })
  if (!route.takesBody) return { route, reply, wantsBody: false }
  const problem = bodyProblem(headers, maxBody)
  return problem === undefined ? { route, reply, wantsBody: true } : done(refuse(problem, `${maxBody}`), route)
}

function call({ onBug, refuse }: Service, route: Route, request: Call): ReturnType<Handler> {
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

export function done(reply: Reply, route?: Route): Dispatched {
  return { route, wantsBody: false, reply: () => reply }
}

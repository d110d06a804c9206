import type { IncomingHttpHeaders } from 'node:http'
import type { Awaitable } from '../guards.ts'
import { now } from '../runtime.ts'
import { bodyProblem, isAllowedPreflight, optionsReply } from './headers.ts'
import type { HangUp, Problem, Refuse, Reply } from './respond.ts'
import { allowOf, type Call, type Route, type Router } from './router.ts'

export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly headers: IncomingHttpHeaders
}

/** A request, over a socket or in process. */
export interface OpenRequest {
  readonly head: RequestHead
  readonly started: number // by now()
  readonly remote?: string | undefined // the client's address
  readBody(): Promise<Buffer | Problem> // or what is wrong with it
  // Set by dispatch():
  route?: Route | undefined
  key?: number | undefined // the index of its valid key
  call?: Call | undefined // of its operation
}

/** A request and what became of it. */
export interface RequestOutcome {
  readonly head?: RequestHead | undefined // undefined if it could not be read
  readonly remote?: string | undefined // the client's address
  readonly route?: Route | undefined
  readonly key?: number | undefined // the index of its valid key
  readonly body?: Buffer | undefined // undefined if nothing read it
  readonly reply: Reply | undefined // undefined if the connection ended before a response
  readonly ms: number // from the head of the request to its response
  readonly bytes: number // of the body that was sent
}

/** What dispatch() needs to serve requests, over a socket or in process. */
export interface Service {
  /** Where each key has a store of its own: the service for the key of a request, if any. */
  readonly serviceFor?: ((head: RequestHead) => Service | undefined) | undefined
  readonly router: Router
  /** The index of the key, what is wrong with it, or undefined if the request needs none. */
  readonly authorize: (headers: IncomingHttpHeaders, method: string) => number | Problem | undefined
  readonly cors: readonly string[] // the origins whose scripts may call, or `*`
  readonly maxBody: number
  readonly refuse: Refuse
  readonly onBug: (error: unknown) => void // receives what an operation throws
  /** Called as a request arrives. `onEnd` later gets the same head, to match the two. */
  readonly onBegin?: ((head: RequestHead) => void) | undefined
  readonly onEnd?: ((request: RequestOutcome) => void) | undefined // logs and records it
}

export const NO_BODY: Buffer = Buffer.alloc(0)

/**
 * Takes a request through the checks in their order: key, path, method, media type, size. Then
 * reads its body, if the operation takes one, and runs the operation.
 */
export function dispatch(service: Service, request: OpenRequest): Awaitable<Reply | HangUp> {
  const { router, authorize, cors, maxBody, refuse } = service
  const { head } = request
  const { method, target, headers } = head
  if (method === 'OPTIONS' && target === '*') return optionsReply(router.allow, headers, cors)
  const { query, secured, routes, param, route } = router.find(method, target)
  request.route = route
  if (isAllowedPreflight(method, headers, cors)) {
    return optionsReply(allowOf(routes?.keys() ?? []), headers, cors)
  }
  const keyOrProblem = secured ? authorize(headers, method) : undefined
  if (typeof keyOrProblem === 'string') return refuse(keyOrProblem) // a Problem
  request.key = keyOrProblem
  if (!routes) return refuse('notFound', router.place)
  if (method === 'OPTIONS') return optionsReply(allowOf(routes.keys()), headers, cors)
  if (!route) return refuse('methodNotAllowed', allowOf(routes.keys()))
  const takesBody = route.method === 'POST' || route.method === 'PUT'
  if (!takesBody) return run(service, request, route, { param, query, body: NO_BODY, head })
  const problem = bodyProblem(headers, maxBody)
  if (problem) return refuse(problem, `${maxBody}`)
  return request.readBody().then((body) => {
    if (typeof body === 'string') return refuse(body, `${maxBody}`)
    return run(service, request, route, { param, query, body, head })
  })
}

/** Reports a request that is over, unless it is a probe. */
export function reportEnd(service: Service, request: OpenRequest, reply?: Reply, bytes = 0): void {
  const { head, route, key, call, started, remote } = request
  if (route?.isProbe) return
  const ms = Math.round((now() - started) * 1_000) / 1_000
  service.onEnd?.({ head, route, key, body: call?.body, ms, reply, bytes, remote })
}

/** Runs an operation. If it throws, that is a bug: the client learns nothing about it. */
function run(
  service: Service,
  request: OpenRequest,
  route: Route,
  call: Call,
): Awaitable<Reply | HangUp> {
  request.call = call
  const fail = (error: unknown) => {
    service.onBug(error)
    return service.refuse('internalError')
  }
  try {
    const reply = route.handle(call)
    return reply instanceof Promise ? reply.catch(fail) : reply
  } catch (error) {
    return fail(error)
  }
}

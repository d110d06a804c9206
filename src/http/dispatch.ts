import type { IncomingHttpHeaders } from 'node:http'
import { bodyProblem, optionsHeaders } from './headers.ts'
import type { Awaitable, Problem, Refuse, Reply } from './respond.ts'
import { type Call, readTarget, type Route, type Router } from './router.ts'

export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly headers: IncomingHttpHeaders
  readonly signal?: AbortSignal
}

/** A request that came in through one of the doors: over a socket, or in process. */
export interface Received {
  readonly head: RequestHead
  readonly started: number // by performance.now()
  // Set by handle():
  route?: Route | undefined
  key?: number | undefined // the index of its valid key
  content?: Buffer | undefined // the body, once read
  readBody(): Promise<Buffer | undefined> // undefined if it is larger than `maxBody`
}

interface Outcome {
  readonly reply: Reply | undefined // undefined if the connection ended before a response
  readonly bytes: number
  readonly remote?: string | undefined
}

export interface RequestRecord extends Outcome {
  readonly head?: RequestHead // absent if the request could not be read
  readonly operation?: string | undefined
  readonly key?: number | undefined // the index of a valid one
  readonly content?: Uint8Array | undefined // the body, if one was wanted and read
  readonly ms: number // from the head of the request to its response
}

/** What serves requests, whichever door they come through. */
export interface Service {
  readonly router: Router
  /** For each path under the base path: the index of the key, or why there is none. */
  readonly authorize: (headers: IncomingHttpHeaders, method: string) => number | Problem | undefined
  readonly cors?: string | undefined // the origin whose scripts may call, or `*`
  readonly maxBody: number
  readonly refuse: Refuse
  readonly onBug: (error: unknown) => void // receives whatever an operation throws
  readonly record?: ((request: RequestRecord) => void) | undefined // omit to skip timing
}

/** Where a request head leads: to a reply at once, or to an operation. */
type Dispatched =
  | { readonly route?: Route | undefined; readonly reply: Reply }
  | { readonly route: Route; readonly reply?: undefined; param: string; query: string }

const NO_BODY = Buffer.alloc(0)

/** Takes a request through all checks and, with its body if it wants one, to its operation. */
export function handle(service: Service, received: Received): Awaitable<Reply | undefined> {
  const dispatched = dispatch(service, received)
  const { route, reply } = dispatched
  received.route = route
  if (reply !== undefined) return reply
  const { param, query } = dispatched
  const { signal } = received.head
  if (!route.takesBody) return run(service, route, { param, query, signal, body: NO_BODY })
  return received.readBody().then((body) => {
    if (body === undefined) return service.refuse('bodyTooLarge', `${service.maxBody}`)
    received.content = body
    return run(service, route, { param, query, signal, body })
  })
}

/** Records a request, unless it is a probe: those come every few seconds. */
export function record(service: Service, received: Received, outcome: Outcome): void {
  const { head, route, key, content, started } = received
  if (route?.isQuiet) return
  const ms = Math.round((performance.now() - started) * 1_000) / 1_000
  service.record?.({ head, operation: route?.operation, key, content, ms, ...outcome })
}

/** Does the checks in their order: key, path, method, media type, size. */
function dispatch(service: Service, received: Received): Dispatched {
  const { method, target, headers } = received.head
  const { router, authorize, cors, maxBody, refuse } = service
  const { path, query } = readTarget(target)
  const hasPath = path.startsWith('/') || (target === '*' && method === 'OPTIONS')
  if (!hasPath) return { reply: refuse('badTarget') }
  const { secured, routes, allow, param } = router.match(path)
  const route = routes?.get(method === 'HEAD' ? 'GET' : method)
  const key = secured ? authorize(headers, method) : undefined
  if (typeof key === 'string') return { route, reply: refuse(key) }
  received.key = key
  if (routes === undefined) return { reply: refuse('notFound') }
  if (method === 'OPTIONS') {
    return { reply: { status: 204, headers: optionsHeaders(allow, headers, cors) } }
  }
  if (route === undefined) return { reply: refuse('methodNotAllowed', allow) }
  const problem = route.takesBody ? bodyProblem(headers, maxBody) : undefined
  if (problem !== undefined) return { route, reply: refuse(problem, `${maxBody}`) }
  return { route, param, query }
}

/** Runs an operation. Whatever it throws is a bug: the client learns nothing of it. */
function run({ onBug, refuse }: Service, route: Route, call: Call): Awaitable<Reply | undefined> {
  const fail = (error: unknown) => {
    onBug(error)
    return refuse('internalError')
  }
  try {
    const reply = route.handle(call)
    return reply instanceof Promise ? reply.catch(fail) : reply
  } catch (error) {
    return fail(error)
  }
}

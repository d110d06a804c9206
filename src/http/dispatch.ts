import type { IncomingHttpHeaders } from 'node:http'
import type { Keyring } from './bearer.ts'
import { refuseBody } from './body.ts'
import { preflightFields } from './cors.ts'
import { type ErrorReply, errorReply, type Reply } from './reply.ts'
import { type Answer, type Call, readTarget, type Route, type Router } from './router.ts'

/** The head of a request: all that is known of it before its body. */
export interface RequestHead {
  readonly method: string
  readonly target: string
  readonly headers: IncomingHttpHeaders
  /** Aborted when nobody waits for the answer any more; absent where that cannot be known. */
  readonly signal?: AbortSignal
}

/** What a head leads to: an answer, or an operation that wants the body first. */
export interface Verdict {
  /** The route, where method and path name one. */
  readonly route?: Route
  /** Answers the request; `body` is needed only where `wantsBody` is true. Never rejects. */
  readonly answer: (body?: Buffer) => Answer
  readonly wantsBody?: true
}

/** What {@link createDispatch} needs to judge requests. */
export interface DispatchOptions {
  router: Router
  /** Absent where no path needs a key. */
  keyring?: Keyring
  /** Whether OPTIONS answers CORS preflights. */
  preflights?: boolean
  /** Bytes that a body may have. */
  maxBody: number
  /** Told of every error that an operation throws: the client learns nothing of it. */
  onBug: (error: unknown) => void
  /** Stands between a request that has passed its checks and its operation; goes on to it unless given. */
  handle?: (route: Route, call: Call) => Answer
}

const BAD_TARGET = errorReply('bad_request', 'The request target must be a path or an http URL; * goes with OPTIONS')
const NOT_FOUND = errorReply('not_found', 'There is nothing at this path')
const INTERNAL_ERROR = errorReply('internal_error', 'The server failed to answer; its log tells why')
const NO_BODY = Buffer.alloc(0)

/** Makes the function that leads a request's head through the checks in their order: key, path, method, type, size. */
export function createDispatch(options: DispatchOptions): (head: RequestHead) => Verdict {
  const { router, keyring, preflights = false, maxBody, onBug, handle = runOperation } = options

  function dispatch({ method, target, headers, signal }: RequestHead): Verdict {
    const parts = readTarget(target)
    if (parts === undefined) return reply(BAD_TARGET)
    if (parts.path === '*') return reply(method === 'OPTIONS' ? allowing(router.allow) : BAD_TARGET)
    const { secured, resource, params } = router.match(parts.path)
    if (method === 'OPTIONS') {
      return reply(resource === undefined ? NOT_FOUND : allowing(resource.allow, preflights ? headers : {}))
    }
    const refusal = secured ? keyring?.refuse(headers.authorization) : undefined
    const route = resource?.routes.get(method === 'HEAD' ? 'GET' : method)
    if (refusal !== undefined) return reply(refusal, route)
    if (resource === undefined) return reply(NOT_FOUND)
    if (route === undefined) return reply(methodNotAllowed(resource.allow))
    const answer = (body: Buffer = NO_BODY) => run(route, { params, query: parts.query, body, signal })
    if (!route.takesBody) return { route, answer }
    const bodyRefusal = refuseBody(headers, maxBody)
    return bodyRefusal === undefined ? { route, answer, wantsBody: true } : reply(bodyRefusal, route)
  }

  function run(route: Route, call: Call): Answer {
    try {
      const answer = handle(route, call)
      return answer instanceof Promise ? answer.catch(failed) : answer
    } catch (error) {
      return failed(error)
    }
  }

  function failed(error: unknown): Reply {
    onBug(error)
    return INTERNAL_ERROR
  }

  return dispatch
}

/** The 405 that names the methods that would be allowed. */
export function methodNotAllowed(allow: string): ErrorReply {
  return errorReply('method_not_allowed', `The method must be one of ${allow}`, ['Allow', allow])
}

function runOperation(route: Route, call: Call): Answer {
  return route.handle(call)
}

function reply(answer: Reply, route?: Route): Verdict {
  return route === undefined ? { answer: () => answer } : { route, answer: () => answer }
}

function allowing(allow: string, headers: IncomingHttpHeaders = {}): Reply {
  return { status: 204, fields: ['Allow', allow, ...preflightFields(allow, headers)] }
}

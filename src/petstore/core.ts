import { inspect } from 'node:util'
import { refuse } from '../api/errors.ts'
import type { Context } from '../api/operations.ts'
import { routes } from '../api/routes.ts'
import { Faults, type FaultSum } from '../fake/faults.ts'
import { RequestRecorder } from '../fake/requests.ts'
import { makeStrict } from '../fake/violations.ts'
import { messageOf } from '../guards.ts'
import type { Keyring } from '../http/bearer.ts'
import type { RequestHead, RequestOutcome, Service } from '../http/dispatch.ts'
import type { Log } from '../http/log.ts'
import type { Reply } from '../http/respond.ts'
import { createRouter, type Router } from '../http/router.ts'
import type { AnyStore } from '../pets/store.ts'
import type { Awaitable } from '../types.ts'
import type { Options } from './options.ts'

/** What a petstore has before its store. */
export interface Setup {
  readonly options: Options
  readonly keyring: Keyring
  readonly log: Log
  readonly faultSum: FaultSum
}

/** A store, and all that belongs to it: the petstore's or, with `storePerKey`, a key's. */
export interface Core {
  readonly context: Context
  readonly faults: Faults
  readonly recorder: RequestRecorder
  readonly service: Service
}

/** @param storeNumber With `storePerKey`, the number of the key's store. */
export function makeCore(
  { options, keyring, log, faultSum }: Setup,
  store: AnyStore,
  recorder: RequestRecorder,
  redact: (text: string) => string,
  storeNumber?: number,
): Core {
  const { basePath, page, strict, getPetState, cors, maxBody } = options
  const switches = { basePath, page, strict, getPetState }
  const onReadiness = (reply: Reply) => logReadiness(log, reply)
  const state = 'serving'
  const context: Context = { ...switches, store, keyring, state, onReadiness }
  const table = routes(context)
  // Before Faults, which then decorates it: faults apply to what it refuses, too.
  if (strict) makeStrict(table, redact)
  const faults = new Faults(table, options.delay, faultSum)
  const router = createRouter(table, basePath)
  const service: Service = {
    router,
    authorize({ authorization }, method) {
      if (method === 'OPTIONS') return undefined
      const index = keyring.authorize(authorization)
      // Where any key is valid, there is no list of keys.
      return keyring.isAnyKeyValid && typeof index === 'number' ? storeNumber : index
    },
    cors: [cors ?? []].flat(),
    maxBody,
    refuse,
    onBug: (error) => {
      const shown = redact(inspect(error))
      if (options.log === 'off') console.error(`petstore-server: ${shown}`)
      else log.event('error', shown)
    },
    ...reports(router, log.requestLogger?.(redact), recorder, faults),
  }
  return { context, faults, recorder, service }
}

function logReadiness(log: Log, { status, code, cause }: Reply): void {
  if (status === 200) return log.event('info', '/readyz is 200 again')
  let why = code === 'storage_failed' ? 'the store cannot be written' : 'the server is stopping'
  if (cause !== undefined) why = messageOf(cause)
  log.event('warn', `/readyz is ${status}: ${why}`)
}

/** What reports requests. A recorder that keeps none is not on their way. */
function reports(
  router: Router,
  logRequest: ((request: RequestOutcome) => void) | undefined,
  recorder: RequestRecorder,
  faults: Faults,
): Pick<Service, 'onBegin' | 'onEnd'> {
  if (recorder.maxRequests === 0) return { onEnd: logRequest }
  const onEnd = (request: RequestOutcome) => {
    logRequest?.(request)
    recorder.add(request, request.head !== undefined && faults.appliedTo(request.head))
  }
  // Routed here, too: a request is recorded as it arrives, also one that waits for another.
  const onBegin = (head: RequestHead) => {
    const { route } = router.find(head.method, head.target)
    if (!route?.isProbe) recorder.begin(head)
  }
  return { onBegin, onEnd }
}

/** Ends every delay and every wait, and closes the store. What it holds can still be read. */
export function closeCore({ context, faults, recorder }: Core): Awaitable<void> {
  context.state = 'closed'
  faults.endDelays()
  recorder.endWaits()
  return context.store.close()
}

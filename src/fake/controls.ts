import type { Log } from '../http/log.ts'
import { createRouter, type Route } from '../http/router.ts'
import type { App } from '../http/serve.ts'
import { readJson, writeJson } from '../pets/json.ts'
import type { Faults } from './faults.ts'
import type { Requests } from './requests.ts'

const MAX_BODY = 64 * 2 ** 20

/** What the controls do with pets. It checks what it is given. */
interface PetFunctions {
  pets(): Promise<readonly unknown[]>
  add(pets: unknown): Promise<readonly unknown[]>
  reset(pets?: unknown): Promise<void>
}

/** The test controls over HTTP, for tests in any language. They take no key. */
export function controlApp(
  { pets, add, reset }: PetFunctions,
  faults: Faults,
  requests: Requests,
  log: Log,
): App {
  const routes = [
    control('POST', '/reset', (body) => reset(body.length > 0 ? readJson(body) : undefined)),
    control('GET', '/pets', () => pets()),
    control('POST', '/pets', (body) => add(readJson(body))),
    control('GET', '/requests', async () => requests.all),
    control('GET', '/faults', async () => faults.pending),
    control('POST', '/faults', async (body) => {
      faults.inject(readJson(body))
      return faults.pending.at(-1)
    }),
    control('DELETE', '/faults', async () => faults.clear()),
  ]
  return {
    base: '',
    find: createRouter(routes, ''),
    // The browser of a web page sends Origin.
    authorize: ({ headers }) => (headers.origin === undefined ? undefined : 'webPage'),
    cors: false,
    maxBody: MAX_BODY,
    onEnd(request, reply, bytes) {
      if (reply?.cause !== undefined) log.request(request, reply, bytes)
    },
    onRefused() {},
  }
}

/** @param task Returns a value for JSON, or nothing. */
function control(
  method: Route['method'],
  path: string,
  task: (body: Buffer) => Promise<unknown>,
): Route {
  const handle: Route['handle'] = async ({ body }) => {
    const value = await task(body)
    if (value === undefined) return { status: 204 }
    return { status: method === 'POST' ? 201 : 200, body: writeJson(value) }
  }
  return { method, path, operation: path, isSecured: true, handle }
}

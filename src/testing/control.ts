import { errorReply, refuse } from '../api/errors.ts'
import type { Service } from '../http/dispatch.ts'
import type { Awaitable, Reply } from '../http/reply.ts'
import { type Handler, type Route, Router } from '../http/router.ts'
import { HttpServer, type HttpServerOptions } from '../http/server.ts'
import { readNewPets } from '../options.ts'
import { messageOf } from '../pets/errors.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { type NewPet, type Pet, petJson } from '../pets/pet.ts'
import type { Petstore } from '../types.ts'

const MAX_BODY = 64 * 2 ** 20

/** The test controls over HTTP: a server of their own, without keys, log and journal. */
export function controlServer(
  petstore: Petstore,
  onBug: Service['onBug'],
  options: Omit<HttpServerOptions, 'service'>,
): HttpServer {
  const service = { router: new Router(routes(petstore), ''), maxBody: MAX_BODY, refuse, onBug }
  return new HttpServer({ ...options, service })
}

function routes(petstore: Petstore): Route[] {
  const reset: Handler = ({ body }) => {
    if (body.length === 0) return settle(async () => done(await petstore.reset()))
    return withPets(body, async (pets) => done(await petstore.reset(pets)))
  }
  const add: Handler = ({ body }) =>
    withPets(body, async (pets) => ({ status: 201, body: jsonOf(await petstore.add(...pets)) }))
  return [
    { method: 'POST', path: '/reset', operation: 'reset', handle: reset, takesBody: true },
    { method: 'GET', path: '/pets', operation: 'readPets', handle: () => ok(jsonOf(petstore.pets)) },
    { method: 'POST', path: '/pets', operation: 'addPets', handle: add, takesBody: true },
    {
      method: 'GET',
      path: '/requests',
      operation: 'readRequests',
      handle: () => ok(JSON.stringify(petstore.requests)),
    },
    { method: 'DELETE', path: '/requests', operation: 'clearRequests', handle: () => done(petstore.clearRequests()) },
    {
      method: 'GET',
      path: '/faults',
      operation: 'readFaults',
      handle: () => ok(JSON.stringify(petstore.pendingFaults)),
    },
    {
      method: 'POST',
      path: '/faults',
      operation: 'inject',
      handle: ({ body }) => inject(petstore, body),
      takesBody: true,
    },
    { method: 'DELETE', path: '/faults', operation: 'clearFaults', handle: () => done(petstore.clearFaults()) },
  ]
}

function done(_: void): Reply {
  return { status: 204 }
}

function ok(body: string): Reply {
  return { status: 200, body }
}

/** Pets with exact integers, which JSON.stringify does not write. */
function jsonOf(pets: readonly Pet[]): string {
  return `[${pets.map(({ id, ...pet }) => petJson(id, pet)).join(',')}]`
}

function withPets(body: Buffer, use: (pets: NewPet[]) => Promise<Reply>): Awaitable<Reply> {
  const input = parseJsonBytes(body)
  if (!input.ok)
    return errorReply(400, 'bad_request', `The body must be an array of NewPet: ${input.issues.join('; ')}`)
  return settle(() => use(readNewPets('The body', input.value)))
}

async function settle(task: () => Promise<Reply>): Promise<Reply> {
  try {
    return await task()
  } catch (error) {
    if (error instanceof TypeError) return errorReply(400, 'invalid_pet', error.message)
    if (error instanceof RangeError) return errorReply(507, 'store_full', error.message)
    return errorReply(503, 'storage_failed', messageOf(error))
  }
}

function inject(petstore: Petstore, body: Buffer): Reply {
  try {
    const input = parseJsonBytes(body)
    if (!input.ok) return errorReply(400, 'bad_request', `The body must be a fault: ${input.issues.join('; ')}`)
    petstore.inject(JSON.parse(body.toString())) // plain numbers: a fault has no int64
    return { status: 201, body: JSON.stringify(petstore.pendingFaults.at(-1)) }
  } catch (error) {
    return errorReply(400, 'bad_request', messageOf(error))
  }
}

import { createDispatch, type DispatchOptions } from '../http/dispatch.ts'
import { errorReply, type Reply } from '../http/reply.ts'
import { type Answer, type Call, type Route, Router } from '../http/router.ts'
import { HttpServer, type HttpServerOptions } from '../http/server.ts'
import { messageOf } from '../pets/errors.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { describeIssues, type NewPet, petJson, validateNewPets } from '../pets/pet.ts'
import type { Controls } from './controls.ts'
import { checkFault } from './faults.ts'

const DONE: Reply = { status: 204 }

const MAX_BODY = 64 * 2 ** 20

/** The test controls over HTTP: a server of their own, without keys and outside log and journal. */
export function controlServer(controls: Controls, { onBug, ...bounds }: ControlOptions): HttpServer {
  const router = new Router(routes(controls), '')
  const dispatch = createDispatch({ router, maxBody: MAX_BODY, onBug })
  const service = { dispatch, echo: () => [], maxBody: MAX_BODY, record: undefined }
  return new HttpServer({ ...bounds, service, allow: router.allow })
}

type ControlOptions = Pick<DispatchOptions, 'onBug'> & Omit<HttpServerOptions, 'service' | 'allow'>

function routes(controls: Controls): Route[] {
  const { faults, journal } = controls
  return [
    { method: 'POST', path: '/reset', operation: 'reset', handle: (call) => reset(controls, call), takesBody: true },
    { method: 'GET', path: '/pets', operation: 'readPets', handle: () => ok(controls.petsJson) },
    { method: 'POST', path: '/pets', operation: 'addPets', handle: (call) => addPets(controls, call), takesBody: true },
    { method: 'GET', path: '/requests', operation: 'readRequests', handle: () => ok(journal.json) },
    { method: 'DELETE', path: '/requests', operation: 'clearRequests', handle: () => done(() => journal.clear()) },
    { method: 'GET', path: '/faults', operation: 'readFaults', handle: () => ok(JSON.stringify(faults.pending)) },
    { method: 'POST', path: '/faults', operation: 'inject', handle: (call) => inject(controls, call), takesBody: true },
    { method: 'DELETE', path: '/faults', operation: 'clearFaults', handle: () => done(() => faults.clear()) },
  ]
}

function ok(body: string): Reply {
  return { status: 200, body }
}

function done(task: () => void): Reply {
  task()
  return DONE
}

function reset(controls: Controls, { body }: Call): Answer {
  if (body.length === 0) return settle(async () => (await controls.reset(), DONE))
  return withPets(body, async (pets) => (await controls.reset(pets), DONE))
}

function addPets(controls: Controls, { body }: Call): Answer {
  return withPets(body, async (pets) => {
    const added = await controls.add(pets)
    return { status: 201, body: `[${added.map(({ id, ...pet }) => petJson(id, pet)).join(',')}]` }
  })
}

function withPets(body: Buffer, use: (pets: NewPet[]) => Promise<Reply>): Answer {
  const input = parseJsonBytes(body)
  if (!input.ok)
    return errorReply('bad_request', `The body must be an array of NewPet: ${describeIssues(input.issues)}`)
  const pets = validateNewPets(input.value)
  if (!pets.ok) return errorReply('invalid_pet', `The body must be an array of NewPet: ${describeIssues(pets.issues)}`)
  return settle(() => use(pets.value))
}

async function settle(task: () => Promise<Reply>): Promise<Reply> {
  try {
    return await task()
  } catch (error) {
    return errorReply(error instanceof RangeError ? 'store_full' : 'storage_failed', messageOf(error))
  }
}

function inject({ faults }: Controls, { body }: Call): Reply {
  const input = parseJsonBytes(body)
  if (!input.ok) return errorReply('bad_request', `The body must be a fault: ${describeIssues(input.issues)}`)
  try {
    const fault: unknown = JSON.parse(Buffer.from(body).toString()) // as it stands: a fault holds no int64
    checkFault(fault)
    faults.inject(fault)
    return { status: 201, body: JSON.stringify(faults.pending.at(-1)) }
  } catch (error) {
    return errorReply('bad_request', messageOf(error))
  }
}

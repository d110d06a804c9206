import { errorReply } from '../api/errors.ts'
import type { Awaitable, Reply } from '../http/reply.ts'
import type { Call, Route } from '../http/router.ts'
import { readNewPets } from '../options.ts'
import { messageOf } from '../pets/errors.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { type NewPet, type Pet, petJson } from '../pets/pet.ts'
import type { Petstore } from '../types.ts'

/** A petstore as the controls use it: it checks what it is given. */
interface Unchecked extends Omit<Petstore, 'inject' | 'getPet'> {
  inject(fault: unknown): void
  getPet: unknown
}

/** Status and code of the reply to an error, by its name. */
type Errors = Readonly<Record<string, readonly [status: number, code: string]>>

const BAD: Errors[string] = [400, 'bad_request']
const OTHERS: Errors = { Error: [408, 'request_timeout'] }
const PETS: Errors = {
  TypeError: [400, 'invalid_pet'],
  RangeError: [507, 'store_full'],
  Error: [503, 'storage_failed'],
}

/** The test controls over HTTP: routes of a server of their own, without keys, log and journal. */
export function controls(petstore: Unchecked): Route[] {
  const inject = (body: Buffer) => {
    petstore.inject(readJson(body, 'a fault'))
    return JSON.stringify(petstore.pendingFaults.at(-1))
  }
  const reset = (body: Buffer) => petstore.reset(body.length === 0 ? undefined : readPets(body))
  const switchGetPet = (body: Buffer) => void (petstore.getPet = readJson(body, '"deprecated" or "gone"'))
  return [
    control('POST', '/reset', 204, ({ body }) => reset(body), PETS),
    control('GET', '/pets', 200, () => jsonOf(petstore.pets), PETS),
    control('POST', '/pets', 201, async ({ body }) => jsonOf(await petstore.add(...readPets(body))), PETS),
    control('GET', '/requests', 200, ({ query }) => waitForRequests(petstore, query)),
    control('DELETE', '/requests', 204, () => petstore.clearRequests()),
    control('GET', '/faults', 200, () => JSON.stringify(petstore.pendingFaults)),
    control('POST', '/faults', 201, ({ body }) => inject(body)),
    control('DELETE', '/faults', 204, () => petstore.clearFaults()),
    control('PUT', '/get-pet', 204, ({ body }) => switchGetPet(body)),
  ]
}

type Task = (call: Call) => Awaitable<string | void>

/** A route whose body, if it has one, is what its task returns. */
function control(method: Route['method'], path: string, status: number, task: Task, errors = OTHERS): Route {
  const handle = async (call: Call): Promise<Reply> => {
    try {
      const body = await task(call)
      return body === undefined ? { status } : { status, body }
    } catch (error) {
      const [status, code] = errors[error instanceof Error ? error.name : ''] ?? BAD
      return errorReply(status, code, messageOf(error))
    }
  }
  return { method, path, operation: path, handle, ...(method.startsWith('P') && { takesBody: true }) }
}

/** Pets with exact integers, which JSON.stringify does not write. */
function jsonOf(pets: readonly Pet[]): string {
  return `[${pets.map((pet) => petJson(pet.id, pet)).join(',')}]`
}

function readPets(body: Buffer): NewPet[] {
  return readNewPets('The body', readJson(body, 'an array of NewPet'))
}

function readJson(body: Buffer, mustBe: string): unknown {
  const input = parseJsonBytes(body)
  if (!input.ok) throw new SyntaxError(`The body must be ${mustBe}: ${input.issues.join('; ')}`)
  return input.value
}

async function waitForRequests(petstore: Unchecked, query: string): Promise<string> {
  const { count = '0', wait, status, ...rest } = Object.fromEntries(new URLSearchParams(query))
  const filter = { ...rest, ...(status && { status: Number(status) }), ...(wait && { timeout: Number(wait) * 1000 }) }
  return JSON.stringify(await petstore.waitForRequests(Number(count), filter))
}

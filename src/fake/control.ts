import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { URLSearchParams } from 'node:url'
import { CODES, errorReply } from '../api/errors.ts'
import type { Reply } from '../http/respond.ts'
import type { Call, Route } from '../http/router.ts'
import { checkMembers, integer, isNumber, misuse, rule } from '../rules.ts'
import { parseJsonBytes } from '../pets/json.ts'
import type { Awaitable, InjectedFault, Pet, Petstore } from '../types.ts'
import { type Control, CONTROLS, jsonOf, responseTo } from './controls.ts'
import type { IdentifiedFault } from './faults.ts'
import { FILTERS } from './requests.ts'
import { listStores, ONLY_TEACHER, type OpenStore, runInStores, splitStores } from './teacher.ts'

/** The petstore as the controls call it, with unchecked JSON. It validates its arguments. */
interface Unchecked {
  readonly pets: Petstore['pets']
  readonly pendingFaults: Petstore['pendingFaults']
  add(newPets: unknown): Promise<Pet[]>
  reset(newPets?: unknown): Promise<void>
  inject(fault: unknown): IdentifiedFault
  injected(id: string): InjectedFault | undefined
  getPetState: unknown
  clearFaults(): void
  clearRequests(): void
  verify(): void
  waitForRequests(count: number, options: object): Promise<unknown>
}

/** What a request asks for. */
interface Asked {
  readonly stores: unknown // which ones the teacher means
  readonly input: unknown // the JSON in its body; undefined without a body
  readonly parameters: Readonly<Record<string, unknown>>
  readonly param: string
}

/** @param open The petstore that the request acts on. */
type Task = (open: () => Unchecked, asked: Asked) => Awaitable<Reply | string | void>

const inject: Task = (open, { input }) => {
  const petstore = open()
  const { id } = petstore.inject(input)
  const headers = ['Location', CONTROLS.fault[1].replace('{id}', id)]
  return { status: 201, headers, body: JSON.stringify(petstore.pendingFaults.at(-1)) }
}

const NO_FAULT = errorReply(404, CODES[404], 'No fault, or none of the latest 1000, has this id')

const getFault: Task = (open, { param }) => {
  const fault = open().injected(param)
  return fault ? JSON.stringify({ hits: fault.hits }) : NO_FAULT
}

const removeFault: Task = (open, { param }) => {
  const fault = open().injected(param)
  return fault ? fault.remove() : NO_FAULT
}

const setGetPetState: Task = (open, { input }) => {
  open().getPetState = input
}

const list = () => Object.values(CONTROLS).map(([method, path]) => ({ method, path }))

const TASKS: readonly (readonly [Control, Task])[] = [
  [CONTROLS.list, () => JSON.stringify(list())],
  [CONTROLS.stores, () => ONLY_TEACHER],
  [CONTROLS.reset, (open, { input }) => open().reset(input)],
  [CONTROLS.pets, (open) => jsonOf(open().pets)],
  [CONTROLS.add, async (open, { input }) => jsonOf(await open().add(input))],
  [CONTROLS.requests, findRequests],
  [CONTROLS.clearRequests, (open) => open().clearRequests()],
  [CONTROLS.faults, (open) => JSON.stringify(open().pendingFaults)],
  [CONTROLS.inject, inject],
  [CONTROLS.clearFaults, (open) => open().clearFaults()],
  [CONTROLS.fault, getFault],
  [CONTROLS.removeFault, removeFault],
  [CONTROLS.verify, (open) => open().verify()],
  [CONTROLS.getPetState, (open) => JSON.stringify(open().getPetState)],
  [CONTROLS.setGetPetState, setGetPetState],
]

/** All stores that are open. */
type Stores = () => readonly OpenStore<Unchecked>[]

/**
 * The test controls over HTTP: not logged, and without a key unless each key has a store.
 * @param stores For the teacher.
 */
export function controlRoutes(open: () => Unchecked, stores?: Stores): Route[] {
  return TASKS.map(([control, task]) => routeOf(control, task, open, stores))
}

function routeOf(control: Control, task: Task, open: () => Unchecked, stores?: Stores): Route {
  const [method, path] = control
  const run = async (open: () => Unchecked, asked: Asked): Promise<Reply> => {
    const result = await task(open, asked)
    if (result === undefined) return { status: 204 }
    if (typeof result === 'object') return result
    return { status: method === 'POST' ? 201 : 200, body: result }
  }
  const handle = async (call: Call): Promise<Reply> => {
    try {
      const asked = readCall(control, call)
      if (!stores && asked.stores !== undefined) return ONLY_TEACHER
      if (!stores || control === CONTROLS.list) return await run(open, asked)
      if (control === CONTROLS.stores) return listStores(stores())
      return await runInStores(asked.stores, stores(), (petstore) => run(() => petstore, asked))
    } catch (error) {
      return responseTo(error)
    }
  }
  return { method, path, operation: path, handle, scope: 'base' } // the operation is never shown
}

const NEEDS_BODY: readonly Control[] = [CONTROLS.add, CONTROLS.inject, CONTROLS.setGetPetState]

function readCall(control: Control, { body, query, param }: Call): Asked {
  const { stores: inQuery, ...parameters } = readQuery(query)
  const hasParameters = control === CONTROLS.requests || Object.keys(parameters).length === 0
  if (!hasParameters) throw misuse('query must be empty')
  const json = body.length > 0 || NEEDS_BODY.includes(control) ? readJson(body) : undefined
  const { stores = inQuery, input } = splitStores(control, json)
  return { stores, input, parameters, param }
}

function readQuery(query: string): Record<string, unknown> {
  const pairs = Array.from(new URLSearchParams(query), ([name, text]) => [name, read(name, text)])
  const given: Record<string, unknown> = Object.fromEntries(pairs)
  if (pairs.length > Object.keys(given).length) throw misuse('query must name each parameter once')
  return given
}

function readJson(body: Buffer): unknown {
  const input = parseJsonBytes(body)
  if (input.ok) return input.value
  throw misuse(`The body must be JSON (strings in double quotes): ${input.reason}`)
}

const PARAMETERS = {
  ...FILTERS,
  count: integer(0, 1_000_000),
  wait: rule('seconds from 0 to 600, such as 5 or 0.25', isNumber, (wait) => wait <= 600),
}

const DIGITS = /^(?:0|[1-9]\d{0,15})$/
const DECIMAL = /^(?:0|[1-9]\d{0,2})(?:\.\d{1,3})?$/

async function findRequests(open: () => Unchecked, { parameters }: Asked): Promise<string> {
  checkMembers('query', parameters, PARAMETERS)
  const { count = 0, wait, ...filters }: Record<string, unknown> = { ...parameters }
  const timeout = wait === undefined ? undefined : Math.round(Number(wait) * 1000)
  const found = await open().waitForRequests(Number(count), { ...filters, timeout })
  return JSON.stringify(found)
}

/** Null, a number in plain digits, or the text as it is. */
function read(name: string, text: string): string | number | null {
  if (text === 'null') return null
  const pattern = name === 'wait' ? DECIMAL : DIGITS
  return pattern.test(text) ? Number(text) : text
}

/**
 * Whether a web page may have sent a request. Its browser says so in Origin or Sec-Fetch-Site (W3C
 * Fetch Metadata) or, after DNS rebinding, in the Host.
 */
export function isFromWebPage(headers: IncomingHttpHeaders, isOnLoopback: boolean): boolean {
  const { origin, host = 'localhost', 'sec-fetch-site': site = 'none' } = headers
  if (origin !== undefined || (site !== 'none' && site !== 'same-origin')) return true
  const name = host.replace(/:\d*$/, '').replace(/[[\]]/g, '')
  return isOnLoopback && !/^localhost$/i.test(name) && isIP(name) === 0
}

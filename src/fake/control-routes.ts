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
import { FILTERS } from './wait.ts'
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
  waitForRequests(count: number, options: object, left?: Promise<void>): Promise<unknown>
}

/** What a request asks for. */
interface Asked {
  readonly stores: unknown // which ones the teacher means
  readonly input: unknown // the JSON in its body; undefined without a body
  readonly parameters: Readonly<Record<string, unknown>>
  readonly param: string
  readonly left: Promise<void> // resolves if the client leaves during a wait
}

type Task = (petstore: Unchecked, asked: Asked) => Awaitable<Reply | string | void>

const inject: Task = (petstore, { input }) => {
  const { id } = petstore.inject(input)
  const headers = ['Location', CONTROLS.fault[1].replace('{id}', id)]
  return { status: 201, headers, body: JSON.stringify(petstore.pendingFaults.at(-1)) }
}

const NO_FAULT = errorReply(404, CODES[404], 'No fault, or none of the latest 1000, has this id')

const getFault: Task = (petstore, { param }) => {
  const fault = petstore.injected(param)
  return fault ? JSON.stringify({ hits: fault.hits }) : NO_FAULT
}

const removeFault: Task = (petstore, { param }) => {
  const fault = petstore.injected(param)
  return fault ? fault.remove() : NO_FAULT
}

const setGetPetState: Task = (petstore, { input }) => {
  petstore.getPetState = input
}

const findRequests: Task = async (petstore, { parameters, left }) => {
  const { count = 0, wait, ...filters } = parameters
  const timeout = wait === undefined ? undefined : Math.round(Number(wait) * 1000)
  const options = { ...filters, timeout }
  return JSON.stringify(await petstore.waitForRequests(Number(count), options, left))
}

/** What the controls do in a petstore. */
const TASKS: readonly (readonly [Control, Task])[] = [
  [CONTROLS.reset, (petstore, { input }) => petstore.reset(input)],
  [CONTROLS.pets, ({ pets }) => jsonOf(pets)],
  [CONTROLS.add, async (petstore, { input }) => jsonOf(await petstore.add(input))],
  [CONTROLS.requests, findRequests],
  [CONTROLS.clearRequests, (petstore) => petstore.clearRequests()],
  [CONTROLS.faults, ({ pendingFaults }) => JSON.stringify(pendingFaults)],
  [CONTROLS.inject, inject],
  [CONTROLS.clearFaults, (petstore) => petstore.clearFaults()],
  [CONTROLS.fault, getFault],
  [CONTROLS.removeFault, removeFault],
  [CONTROLS.verify, (petstore) => petstore.verify()],
  [CONTROLS.getPetState, ({ getPetState }) => JSON.stringify(getPetState)],
  [CONTROLS.setGetPetState, setGetPetState],
]

/** Does what a request asks for in the petstores that it means. */
type Act = (asked: Asked, run: (petstore: Unchecked) => Promise<Reply>) => Awaitable<Reply>

/**
 * The test controls over HTTP: not logged, and without a key unless each key has a store.
 *
 * @param open The petstore that a request acts on, once its body has come.
 */
export function controlRoutes(open: () => Unchecked): Route[] {
  const act: Act = ({ stores }, run) => (stores === undefined ? run(open()) : ONLY_TEACHER)
  return [routeOf(CONTROLS.stores, () => ONLY_TEACHER), ...commonRoutes(act)]
}

/** The same with the key of the teacher, whose requests say in which stores they act. */
export function teacherRoutes(open: () => readonly OpenStore<Unchecked>[]): Route[] {
  const act: Act = ({ stores }, run) => runInStores(stores, open(), run)
  return [routeOf(CONTROLS.stores, () => listStores(open())), ...commonRoutes(act)]
}

function commonRoutes(act: Act): Route[] {
  const list = Object.values(CONTROLS).map(([method, path]) => ({ method, path }))
  const tasks = TASKS.map(([control, task]) => {
    const answer = (asked: Asked) =>
      act(asked, async (petstore) => replyOf(control, await task(petstore, asked)))
    return routeOf(control, answer)
  })
  return [routeOf(CONTROLS.list, () => ({ status: 200, body: JSON.stringify(list) })), ...tasks]
}

function routeOf(control: Control, answer: (asked: Asked) => Awaitable<Reply>): Route {
  const [method, path] = control
  const handle = async (call: Call): Promise<Reply> => {
    try {
      return await answer(readCall(control, call))
    } catch (error) {
      return responseTo(error)
    }
  }
  return { method, path, operation: path, handle, scope: 'base' } // the operation is never shown
}

function replyOf([method]: Control, result: Reply | string | void): Reply {
  if (result === undefined) return { status: 204 }
  if (typeof result === 'object') return result
  return { status: method === 'POST' ? 201 : 200, body: result }
}

const NEEDS_BODY: readonly Control[] = [CONTROLS.add, CONTROLS.inject, CONTROLS.setGetPetState]

function readCall(control: Control, call: Call): Asked {
  const { body, query, param } = call
  const { stores: inQuery, ...parameters } = readQuery(query)
  if (control === CONTROLS.requests) checkMembers('query', parameters, PARAMETERS)
  else if (Object.keys(parameters).length > 0) throw misuse('query must be empty')
  const json = body.length > 0 || NEEDS_BODY.includes(control) ? readJson(body) : undefined
  const { stores = inQuery, input } = splitStores(control, json)
  const left = new Promise<void>((resolve) => {
    if (control === CONTROLS.requests) call.onLeave = resolve
  })
  return { stores, input, parameters, param, left }
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

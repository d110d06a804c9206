import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { resolve } from 'node:path'
import { routesOf } from './api/operations.ts'
import { codedError } from './errors.ts'
import { controlApp } from './fake/controls.ts'
import { Faults } from './fake/faults.ts'
import { Requests } from './fake/requests.ts'
import { Keys } from './http/keys.ts'
import { Log } from './http/log.ts'
import { createRouter } from './http/router.ts'
import type { App } from './http/serve.ts'
import { hostAndPort, HttpServer, urlOf } from './http/server.ts'
import { API_KEYS, readOptions, TIME } from './options.ts'
import { checkedStore } from './pets/checked-store.ts'
import { MemoryStore } from './pets/memory-store.ts'
import { checkInitialPets, checkNewPets } from './pets/pet.ts'
import { openSnapshot } from './pets/snapshot-store.ts'
import type { Pet, Store } from './pets/store.ts'
import { check } from './rules.ts'
import type { Options, Petstore, StartOptions } from './types.ts'

const PACKAGE = readFileSync(`${__dirname}/../package.json`, 'utf8')
export const VERSION: string = JSON.parse(PACKAGE).version

const MAX_BODY = 64 * 2 ** 10
const PAGE = 100 // pets that are read at once
const PROBES = ['/livez', '/readyz'] // they come every few seconds
const LOOPBACK = /^(?:localhost$|127\.|::1$)/i

/**
 * Starts a petstore that listens, by default on a free port of the loopback address.
 *
 * @param options All have defaults: see {@link StartOptions}.
 * @returns The running petstore.
 * @throws TypeError `invalid_option` or `invalid_pet`: an option is wrong.
 * @throws Error `storage_failed` or `store_full`, or with the system's code: it cannot listen.
 * @example
 * const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
 * const response = await fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 * await petstore.close()
 */
export async function startPetstore(options: StartOptions = {}): Promise<Petstore> {
  const { petstore } = await launch(readOptions(options), { isFake: true })
  return petstore
}

/** What a petstore consists of. */
interface Parts {
  readonly options: Options
  readonly log: Log
  readonly store: Store
  readonly keys: Keys
  readonly faults: Faults
  readonly requests: Requests
  readonly isFake: boolean // whether requests are recorded, and faults apply
  readonly state: { isReady: boolean; isClosed: boolean } // unless it is ready, /readyz is 503
}

/** @internal A running petstore, and what the executable needs besides. */
export interface Launched {
  readonly petstore: Petstore
  readonly server: HttpServer
  readonly log: Log
  readonly state: Parts['state']
}

/** @internal Puts all parts together, and starts. */
export async function launch(options: Options, { isFake }: { isFake: boolean }): Promise<Launched> {
  const { host, port, basePath, keepAlive, controlPort, apiKeys = [randomUUID()] } = options
  const log = new Log(options.log)
  const { store, contents } = await openStore(options, log)
  const keys = new Keys(apiKeys)
  const faults = new Faults()
  const requests = new Requests()
  const state = { isReady: true, isClosed: false }
  const parts: Parts = { options, log, store, keys, faults, requests, isFake, state }
  const functions = petFunctions(parts)
  const controls = new HttpServer(controlApp(functions, faults, requests, log), keepAlive)
  const server = new HttpServer(appOf(parts), keepAlive)
  const close = createClose(parts, server, controls)
  try {
    // The server last: nothing is logged before the first line.
    const controlUrl =
      controlPort === undefined ? undefined : urlOf(await controls.listen(controlPort, host))
    const bound = await server.listen(port, host)
    const url = urlOf(bound) + basePath
    const petstore = petstoreOf(parts, { url, controlUrl, close, ...functions })
    logStart(petstore, parts, bound, contents)
    return { petstore, log, state, server }
  } catch (error) {
    await close().catch(() => {}) // the first error counts
    throw error
  }
}

/** Opens the store, and says what is in it. */
async function openStore(options: Options, log: Log): Promise<{ store: Store; contents: string }> {
  const { store, snapshot, pets, maxStore } = options
  if (store) return { store: checkedStore(store), contents: 'in a store of your own' }
  const memory = new MemoryStore(maxStore)
  if (snapshot === undefined) {
    await memory.reset(pets)
    return { store: memory, contents: `${memory.all.length} in memory` }
  }
  const warn = (message: string): void => log.line('warn', { message })
  const kept = await openSnapshot(snapshot, memory, pets, warn)
  return { store: kept, contents: `${memory.all.length} in ${resolve(snapshot)}` }
}

/** The operations, with their faults, keys, log and records. */
function appOf(parts: Parts): App {
  const { options, store, keys, faults, requests, log, isFake, state } = parts
  const { basePath, cors } = options
  const routes = routesOf(store, basePath, () => state.isReady)
  return {
    base: basePath,
    find: createRouter(isFake ? faults.wrap(routes) : routes, basePath),
    authorize({ method, headers }) {
      return method === 'OPTIONS' ? undefined : keys.find(headers.authorization)
    },
    cors,
    maxBody: MAX_BODY,
    onEnd(request, reply, bytes) {
      const isProbe = PROBES.includes(request.path)
      if (!isProbe || reply?.status !== 200) log.request(request, reply, bytes)
      if (!isProbe && isFake) requests.add(request, reply)
    },
    onRefused: (reply, remote) => log.refused(reply, remote),
  }
}

/** The pet functions of tests, in JavaScript and over HTTP. They check input of any type. */
function petFunctions(parts: Parts) {
  const { options, store, faults, requests } = parts
  return {
    async pets() {
      checkOpen(parts)
      return copiesOf(await readAll(store))
    },
    async add(pets: unknown) {
      checkOpen(parts)
      return copiesOf(await store.add(checkNewPets(pets)))
    },
    async reset(pets: unknown = options.pets) {
      checkOpen(parts)
      const fresh = checkInitialPets(pets)
      faults.clear() // first, so that no delayed request adds a pet to the fresh ones
      await store.reset(fresh)
      requests.clear()
    },
  }
}

function checkOpen({ state }: Parts): void {
  if (state.isClosed) throw codedError('closed', 'this petstore is closed')
}

/** The pets of all pages. */
async function readAll(store: Store): Promise<Pet[]> {
  const all: Pet[] = []
  for (;;) {
    const pets = await store.list({ limit: PAGE, after: all.at(-1)?.id ?? 0 })
    all.push(...pets)
    if (pets.length < PAGE) return all
  }
}

/** What a caller may change without changing the store. */
function copiesOf(pets: readonly Pet[]): Pet[] {
  return pets.map((pet) => ({ ...pet }))
}

type Given = Pick<Petstore, 'url' | 'controlUrl' | 'pets' | 'add' | 'reset' | 'close'>

/** The handle that startPetstore returns. */
function petstoreOf(parts: Parts, given: Given): Petstore {
  const { keys, faults, requests } = parts
  return {
    ...given,
    get apiKey() {
      return keys.first
    },
    get headers() {
      return { authorization: `Bearer ${keys.first}` }
    },
    get requests() {
      return requests.all
    },
    get pendingFaults() {
      return faults.pending
    },
    inject(fault) {
      checkOpen(parts)
      return faults.inject(fault)
    },
    clearFaults: () => faults.clear(),
    waitForRequests: (count, options) => requests.waitFor(count, options),
    replaceKeys(apiKeys) {
      check('apiKeys', apiKeys, API_KEYS)
      keys.replace(apiKeys)
    },
    async [Symbol.asyncDispose]() {
      await given.close()
    },
  }
}

/** The function that stops the servers, and then closes the store. */
function createClose(parts: Parts, server: HttpServer, controls: HttpServer): Petstore['close'] {
  const { faults, requests, store, state } = parts
  let ending: Promise<void> | undefined
  const end = async (): Promise<void> => {
    faults.clear()
    requests.close()
    await store.close()
  }
  return async (drain = 0) => {
    check('drain', drain, TIME)
    state.isReady = false
    state.isClosed = true
    const [cutOff] = await Promise.all([server.stop(drain), controls.stop(0)])
    ending ??= end()
    await ending
    return cutOff
  }
}

/** The first line of the log, and a warning if other machines reach the controls. */
function logStart(
  { url, controlUrl, apiKey }: Petstore,
  { options, log }: Parts,
  { address, port }: AddressInfo,
  contents: string,
): void {
  const server = `petstore-server ${VERSION}, process ${process.pid}`
  const listens = `listens on ${hostAndPort(address, port)}`
  const keys = `valid keys: ${options.apiKeys?.length ?? 1}` // without any, one is generated
  const message = `${server}, ${listens}; ${keys}; pets: ${contents}`
  const generatedKey = options.apiKeys ? undefined : apiKey
  log.line('info', log.format === 'json' ? { message, url, controlUrl, generatedKey } : { message })
  if (controlUrl !== undefined && !LOOPBACK.test(options.host)) {
    log.line('warn', { message: 'other machines may reach the test controls, which need no key' })
  }
}

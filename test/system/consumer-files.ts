export const TYPES = `
import { connectPetstore, createPetstore, startPetstore } from 'petstore-server'
import type { ConnectOptions, RemoteFault, RemotePetstore } from 'petstore-server'
import type { Fault, GetPetState, Int64, NewPet, OperationId, WaitOptions } from 'petstore-server'
import type { PetstoreErrorCode, PetstoreOptions, StartOptions } from 'petstore-server'
import type { Pet, Petstore, PetStatus, RecordedRequest, Store } from 'petstore-server'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Flat<T> = { [K in keyof T]: T[K] }
type Status = 'available' | 'pending' | 'sold'
interface Named { name: string; categoryId: number | bigint; status?: Status | undefined }
function same<A, B>(_: Same<A, B>): void {}

same<[Int64, PetStatus], [number | bigint, Status]>(true)
same<[Flat<NewPet>, Flat<Pet>], [Flat<Named>, Flat<Named & { id: number }>]>(true)
same<OperationId, 'listPets' | 'createPet' | 'getPet'>(true)
same<Fault['operation'], OperationId | 'listOrders' | '*'>(true)
same<NonNullable<Fault['status']>, number>(true)
same<StartOptions['getPetState'], GetPetState | undefined>(true)
same<StartOptions['port'], number | undefined>(true)
same<Parameters<typeof startPetstore>, [options?: StartOptions | undefined]>(true)
same<Parameters<typeof createPetstore>, [options?: PetstoreOptions | undefined]>(true)
same<ReturnType<typeof startPetstore>, Promise<Petstore>>(true)
same<ReturnType<typeof createPetstore>, Petstore>(true)
same<ReturnType<typeof connectPetstore>, RemotePetstore>(true)
same<Parameters<typeof connectPetstore>, [options: ConnectOptions]>(true)
same<ReturnType<RemotePetstore['inject']>, Promise<RemoteFault>>(true)
same<RemotePetstore['requests'], Promise<RecordedRequest[]>>(true)
same<[Petstore['fetch'], Petstore['requests']], [typeof fetch, RecordedRequest[]]>(true)
same<[RecordedRequest['status'], RecordedRequest['key']], [number | null, number | null]>(true)
same<ReturnType<Petstore['waitForRequests']>, Promise<RecordedRequest[]>>(true)

const optionErrors = ['invalid_option', 'invalid_pet'] as const
const otherErrors = ['store_full', 'storage_failed', 'timeout', 'closed'] as const
export const unverified: PetstoreErrorCode = 'verify_failed'
export const codes: PetstoreErrorCode[] = [...optionErrors, ...otherErrors]
export const nothing: StartOptions & WaitOptions = { port: undefined, timeout: undefined }
const always = { operation: '*', times: 'always' } as const
export const delay: Fault = { ...always, status: undefined, delay: [1, 2], body: undefined }
// @ts-expect-error: no effect
export const idle: Fault = { operation: '*', times: 2 }
// @ts-expect-error: no response that could have a status
export const silent: Fault = { operation: '*', hangUp: true, status: 500 }
// @ts-expect-error: no response to cut
export const uncut: Fault = { operation: '*', hangUp: true, body: 'cut' }
// @ts-expect-error: Retry-After goes with a status
export const soon: Fault = { operation: '*', delay: 1, retryAfter: 1 }
// @ts-expect-error: a code goes with a status
export const coded: Fault = { operation: '*', hangUp: true, code: 'lost' }
export const onAll = (fault: Fault): Fault => ({ ...fault, operation: '*' })
export const faults: readonly Fault[] = [
  { operation: 'getPet', petId: 1, hangUp: true, delay: [1, 2] },
  { operation: '*', status: 503, retryAfter: 1, body: 'garbled', rate: 0.5, seed: 1 },
  { operation: 'createPet', body: 'cut', done: true },
  { operation: '*', status: 429, code: 'slow_down', message: '', headers: { 'X-Odd': '' } },
]
export const empty: Store = {
  page: async () => ({ json: '[]', next: undefined }),
  get: () => undefined,
  add: ({ name }) => ({ ok: false, reason: 'store_full', cause: name }),
  reset: async (pets) => pets.length === 0,
  isWritable: () => false,
  close() {},
}
export const served: StartOptions & PetstoreOptions = { store: empty }
// @ts-expect-error: six functions
export const partial: StartOptions = { store: { get: () => undefined } }
export const left: WaitOptions = { status: null, petId: 1, key: 0 }
// @ts-expect-error: no socket, no port
export const petstore = createPetstore({ port: 8080 })
export async function sold(): Promise<Pet[]> {
  const pets: NewPet[] = [{ name: 'Rex', categoryId: 2n ** 60n, status: 'sold' }]
  await using petstore = await startPetstore({ pets })
  return petstore.add([{ name: 'Tom', categoryId: 1 }])
}
`

/** A stand-in for `testcontainers` that runs the installed package as a process. */
export const TESTCONTAINERS = `
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const MAIN = 'node_modules/petstore-server/dist/main.js'

export const Wait = { forHttp: (path, port) => ({ path, port }) }

export class GenericContainer {
  constructor(image) {
    if (image !== 'petstore-server') throw new Error('unknown image ' + image)
  }
  withEnvironment(env) { return Object.assign(this, { env }) }
  withExposedPorts(...ports) { return Object.assign(this, { ports }) }
  withWaitStrategy(wait) { return Object.assign(this, { wait }) }
  async start() {
    const here = { HOST: '127.0.0.1', PETSTORE_CONTROL_HOST: '127.0.0.1', PETSTORE_LOG: 'text' }
    const env = { ...process.env, ...this.env, ...here, PORT: '0', PETSTORE_CONTROL_PORT: '0' }
    const child = spawn(process.execPath, [MAIN], { env })
    process.once('exit', () => child.kill()) // also if the example fails
    let output = ''
    let urls = []
    while (urls.length < 2) {
      output += (await once(child.stdout, 'data'))[0]
      urls = output.match(/http:\\/\\/\\S+(?=\\n)/g) ?? []
    }
    const getMappedPort = (port) => new URL(urls[this.ports.indexOf(port)]).port
    const { port, path } = this.wait
    const { status } = await fetch('http://127.0.0.1:' + getMappedPort(port) + path)
    if (status !== 200) throw new Error('it is not ready: ' + status)
    const stop = async () => {
      child.kill()
      await once(child, 'exit')
    }
    return { getHost: () => '127.0.0.1', getMappedPort, stop }
  }
}
`

/** Each worker has a store of its own, which is reset: so every pet has the first id. */
export const XDIST = `
import json
from urllib.request import Request, urlopen

import pytest


@pytest.mark.parametrize("category", range(4))
def test_a_pet_is_added(petstore, category):
    url, headers = petstore
    pet = json.dumps({"name": "Tom", "categoryId": category}).encode()
    request = Request(url + "/pets", pet, {**headers, "content-type": "application/json"})
    with urlopen(request) as response:
        assert json.load(response)["id"] == 1
`

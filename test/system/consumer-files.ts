// Files of the project that uses the package.

/** A test for any runner; `test`, `assert`, `createPetstore` and `startPetstore` are there already. */
export const USAGE = `
test('a client is tested against the pet store', async () => {
  const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 9007199254740993n, status: 'sold' }] })
  const { url, apiKey } = petstore
  try {
    const headers = { authorization: 'Bearer ' + apiKey, 'content-type': 'application/json' }
    const list = (fetch) => fetch(url + '/pets', { headers })
    const add = (fetch) => fetch(url + '/pets', { method: 'POST', headers, body: '{"name":"Tom","categoryId":2}' })
    petstore.inject({ operation: 'createPet', status: 503, retryAfter: 1 })
    petstore.inject({ operation: '*', times: 2, hangUp: true })
    const refused = await add(fetch)
    assert.equal(refused.headers.get('retry-after'), '1')
    assert.equal((await refused.json()).code, 'injected_fault')
    for (const way of [fetch, petstore.fetch]) await assert.rejects(list(way), { name: 'TypeError' })
    assert.equal(petstore.pendingFaults.length, 0)
    for (const way of [fetch, petstore.fetch]) assert.equal((await add(way)).status, 201)
    const pets = '[{"id":1,"name":"Rex","categoryId":9007199254740993,"status":"sold"}' +
      ',{"id":2,"name":"Tom","categoryId":2},{"id":3,"name":"Tom","categoryId":2}]'
    for (const way of [fetch, petstore.fetch]) assert.equal(await (await list(way)).text(), pets)
    assert.equal(petstore.pets[0].categoryId, 9007199254740993n)
    const journal = petstore.requests.map(({ operation, status }) => operation + ' ' + status).join()
    assert.equal(journal, 'createPet 503,listPets null,listPets null,createPet 201,createPet 201,listPets 200,listPets 200')
    await petstore.reset()
    assert.equal(petstore.pets.length, 1)
    await assert.rejects(startPetstore({ port: -1 }), { name: 'RangeError', message: /^port -1 must be / })
  } finally {
    await petstore[Symbol.asyncDispose]()
    await petstore.close()
  }
  await assert.rejects(fetch(url), { name: 'TypeError' })
  const { fetch: inProcess } = createPetstore()
  assert.equal((await inProcess('http://any.example/v1/pets')).status, 401)
})
`

/** Holds the types to what they are to be. */
export const TYPES = `
import { createPetstore, startPetstore } from 'petstore-server'
import type { CreateOptions, Fault, Int64, NewPet, OperationId } from 'petstore-server'
import type { Pet, Petstore, PetstoreOptions, PetStatus, RecordedRequest } from 'petstore-server'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Flat<T> = { [K in keyof T]: T[K] }
function same<A, B>(_: Same<A, B>): void {}

interface Named { name: string; categoryId: number | bigint; status?: 'available' | 'pending' | 'sold' }
same<Int64, number | bigint>(true)
same<PetStatus, 'available' | 'pending' | 'sold'>(true)
same<Flat<NewPet>, Flat<Named>>(true)
same<Flat<Pet>, Flat<Named & { id: number }>>(true)
same<OperationId, 'listPets' | 'createPet' | 'getPet' | 'listOrders'>(true)
same<Fault['operation'], OperationId | '*'>(true)
same<Required<Omit<Fault, 'operation'>>, {
  times: number; status: number; retryAfter: number; delay: number; hangUp: boolean; body: 'cut'
}>(true)
same<{ [K in 'pets' | 'getPet' | 'log' | 'port' | 'controlPort']: NonNullable<PetstoreOptions[K]> }, {
  pets: readonly NewPet[]; getPet: 'deprecated' | 'gone'; log: 'text' | 'json' | 'off'; port: number; controlPort: number
}>(true)
const nothing: PetstoreOptions = { port: undefined, snapshot: undefined }
same<Parameters<typeof startPetstore>, [options?: PetstoreOptions | undefined]>(true)
same<Parameters<typeof createPetstore>, [options?: CreateOptions | undefined]>(true)
same<ReturnType<typeof startPetstore>, Promise<Petstore>>(true)
same<ReturnType<typeof createPetstore>, Petstore>(true)
same<Petstore['fetch'], typeof fetch>(true)
same<Petstore['requests'], RecordedRequest[]>(true)
same<RecordedRequest['status'], number | null>(true)

// @ts-expect-error: it is no status
export const lost: NewPet = { name: 'Rex', categoryId: 1, status: 'lost' }
// @ts-expect-error: it is no operation
export const fault: Fault = { operation: 'dropPets', status: 500 }
// @ts-expect-error: it is no option
export const options: PetstoreOptions = { prot: 8080 }
// @ts-expect-error: without a socket there is no port
export const petstore = createPetstore({ port: 8080 })
export async function sold(): Promise<Pet[]> {
  await using petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 2n ** 60n, status: 'sold' }] })
  return petstore.add({ name: 'Tom', categoryId: 1 })
}
`

/** Prints what an editor completes between the braces of `startPetstore({  })`, with its docs. */
export const COMPLETE = `
const ts = require('typescript-5')
const files = { 'a.mts': "import { startPetstore } from 'petstore-server'\\nvoid startPetstore({  })" }
const service = ts.createLanguageService({
  ...ts.sys,
  useCaseSensitiveFileNames: () => true,
  getScriptFileNames: () => Object.keys(files),
  getScriptVersion: () => '1',
  getScriptSnapshot: (name) => ts.ScriptSnapshot.fromString(files[name] ?? ts.sys.readFile(name) ?? ''),
  fileExists: (name) => name in files || ts.sys.fileExists(name),
  getCompilationSettings: () => ({ module: ts.ModuleKind.NodeNext, strict: true, types: ['node'] }),
  getDefaultLibFileName: ts.getDefaultLibFilePath,
})
const at = files['a.mts'].length - 3
const docs = service.getCompletionsAtPosition('a.mts', at, {}).entries.map(({ name }) =>
  [name, ts.displayPartsToString(service.getCompletionEntryDetails('a.mts', at, name, {}, undefined, {}, undefined).documentation)])
console.log(JSON.stringify(Object.fromEntries(docs)))
`

/** A package `testcontainers` whose image is the installed package: it runs as a process, on ports of its own. */
export const TESTCONTAINERS = `
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export const Wait = { forHttp: (path, port) => ({ path, port }) }

export class GenericContainer {
  constructor(image) {
    if (image !== 'petstore-server') throw new Error('unknown image ' + image)
  }
  withEnvironment(env) { return Object.assign(this, { env }) }
  withExposedPorts(...ports) { return Object.assign(this, { ports }) }
  withWaitStrategy(wait) { return Object.assign(this, { wait }) }
  async start() {
    const inside = { PORT: '8080', HOST: '127.0.0.1', PETSTORE_LOG: 'text', ...this.env }
    const env = { ...process.env, ...inside, PORT: '0', PETSTORE_CONTROL_PORT: '0', PETSTORE_CONTROL_HOST: '127.0.0.1' }
    const child = spawn(process.execPath, ['node_modules/petstore-server/dist/main.js'], { env })
    process.once('exit', () => child.kill()) // also when the example fails
    let output = ''
    let urls = []
    while (urls.length < 2) {
      output += (await once(child.stdout, 'data'))[0]
      urls = output.match(/http:\\/\\/\\S+(?=\\n)/g) ?? []
    }
    const bound = new Map([inside.PORT, inside.PETSTORE_CONTROL_PORT].map((port, at) => [Number(port), Number(new URL(urls[at]).port)]))
    const getMappedPort = (port) => {
      if (!this.ports.includes(port) || !bound.has(port)) throw new Error('nothing is exposed at ' + port)
      return bound.get(port)
    }
    const { status } = await fetch('http://127.0.0.1:' + getMappedPort(this.wait.port) + this.wait.path)
    if (status !== 200) throw new Error('it is not ready: ' + status)
    const stop = () => (child.kill(), once(child, 'exit'))
    return { getHost: () => '127.0.0.1', getMappedPort, stop }
  }
}
`

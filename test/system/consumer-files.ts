export const TS_JEST: Readonly<Record<string, string>> = {
  'package.json': JSON.stringify({
    private: true,
    scripts: { test: 'jest --preset ts-jest' },
    devDependencies: { jest: '30.5.2', 'ts-jest': '29.4.15', typescript: '5.9.3', '@types/jest': '30.0.0' },
  }),
  'tsconfig.json': JSON.stringify({ compilerOptions: { module: 'node16', target: 'es2022', strict: true } }),
  'client.test.ts': `
import { type Petstore, startPetstore } from 'petstore-server'

test('a socket and the page', async () => {
  const petstore: Petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 9007199254740993n, status: 'sold' }] })
  const { url, headers } = petstore
  expect(await (await fetch(url + '/pets', { headers })).text()).toContain('"categoryId":9007199254740993')
  expect(await (await fetch(new URL('/', url))).text()).toContain('<script>')
  await petstore.close()
})
`,
}

export const TYPES = `
import { createPetstore, startPetstore } from 'petstore-server'
import type { CreateOptions, Fault, Int64, NewPet, OperationId, WaitOptions } from 'petstore-server'
import type { Pet, Petstore, PetstoreOptions, PetStatus, RecordedRequest } from 'petstore-server'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Flat<T> = { [K in keyof T]: T[K] }
type Status = 'available' | 'pending' | 'sold'
interface Named { name: string; categoryId: number | bigint; status?: Status }
function same<A, B>(_: Same<A, B>): void {}

same<[Int64, PetStatus], [number | bigint, Status]>(true)
same<[Flat<NewPet>, Flat<Pet>], [Flat<Named>, Flat<Named & { id: number }>]>(true)
same<OperationId, 'listPets' | 'createPet' | 'getPet' | 'listOrders'>(true)
same<[Fault['operation'], NonNullable<Fault['status']>], [OperationId | '*', number]>(true)
same<[PetstoreOptions['getPet'], PetstoreOptions['port']], ['deprecated' | 'gone' | undefined, number | undefined]>(true)
same<Parameters<typeof startPetstore>, [options?: PetstoreOptions | undefined]>(true)
same<Parameters<typeof createPetstore>, [options?: CreateOptions | undefined]>(true)
same<[ReturnType<typeof startPetstore>, ReturnType<typeof createPetstore>], [Promise<Petstore>, Petstore]>(true)
same<[Petstore['fetch'], Petstore['requests']], [typeof fetch, RecordedRequest[]]>(true)
same<[RecordedRequest['status'], RecordedRequest['key']], [number | null, number | null]>(true)
same<ReturnType<Petstore['waitForRequests']>, Promise<RecordedRequest[]>>(true)

export const nothing: PetstoreOptions & WaitOptions = { port: undefined, snapshot: undefined, timeout: undefined }
export const delay: Fault = { operation: '*', times: 'always', status: undefined, delay: [1, 2], body: undefined }
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
    const ours = { PORT: '0', HOST: '127.0.0.1', PETSTORE_LOG: 'text', PETSTORE_CONTROL_PORT: '0', PETSTORE_CONTROL_HOST: '127.0.0.1' }
    const child = spawn(process.execPath, ['node_modules/petstore-server/dist/main.js'], { env: { ...process.env, ...this.env, ...ours } })
    process.once('exit', () => child.kill()) // also when the example fails
    let urls = []
    for (let output = ''; urls.length < 2; urls = output.match(/http:\\/\\/\\S+(?=\\n)/g) ?? []) {
      output += (await once(child.stdout, 'data'))[0]
    }
    const getMappedPort = (port) => new URL(urls[this.ports.indexOf(port)]).port
    const { status } = await fetch('http://127.0.0.1:' + getMappedPort(this.wait.port) + this.wait.path)
    if (status !== 200) throw new Error('it is not ready: ' + status)
    return { getHost: () => '127.0.0.1', getMappedPort, stop: () => (child.kill(), once(child, 'exit')) }
  }
}
`

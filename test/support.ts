import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http'
import { connect, type Server as NetServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { startPetstore } from '../src/index.ts'
import type { Petstore, StartOptions } from '../src/types.ts'

/** The key of every petstore that a test starts. */
export const KEY = 'key-of-the-tests'

/** Starts a petstore. The end of the test closes it. */
export async function start(t: TestContext, options: StartOptions = {}): Promise<Petstore> {
  const petstore = await startPetstore({ apiKeys: [KEY], ...options })
  t.after(() => petstore.close())
  return petstore
}

/** Makes a folder, which the end of the test removes. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The lines of the log of petstores of this process, from now on. */
export function logOf(t: TestContext): { text: string } {
  const log = { text: '' }
  const { stdout } = process
  const write = stdout.write.bind(stdout)
  t.mock.method(stdout, 'write', (...args: Parameters<typeof write>) => {
    const [chunk] = args
    if (typeof chunk !== 'string') return write(...args) // the runner reports in bytes
    log.text += chunk
    const done = args.at(-1)
    if (typeof done === 'function') done()
    return true
  })
  return log
}

/** Lets a server listen, and resolves to its port. The end of the test closes it. */
export async function listen(t: TestContext, server: NetServer): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const address = server.address()
  assert.ok(address instanceof Object)
  return address.port
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

export interface Sent {
  headers?: Record<string, string>
  body?: string | Buffer
  agent?: Agent // without one, each request opens a connection
}

/** Sends a request, with the key by default, to a path of the server: `/v1/pets`. */
export async function send(
  { url }: { url: string },
  method: string,
  path: string,
  sent: Sent = {},
): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const headers = { authorization: `Bearer ${KEY}`, ...sent.headers }
  const host = hostname.replace(/^\[|\]$/g, '')
  const asked = request({ host, port, method, path, headers, agent: sent.agent ?? false })
  const [response]: IncomingMessage[] = await once(asked.end(sent.body), 'response')
  assert.ok(response)
  asked.on('error', () => {}) // the server may reset the connection before the body is sent
  const { statusCode: status = 0, headers: received } = response
  return { status, headers: received, body: await text(response) }
}

/** The status of an answer, with the code of an Error: `404 not_found`. An Error is exactly one. */
export function outcomeOf({ status, headers, body }: Answer): string {
  if (status < 400 || body === '') return `${status}`
  const { code, message }: Record<string, unknown> = JSON.parse(body)
  assert.deepEqual(JSON.parse(body), { code: `${code}`, message: `${message}`, status })
  assert.equal(headers['content-type'], 'application/json')
  return `${status} ${code}`
}

/** A connection that writes any bytes and reads one response after the other. */
export class RawConnection {
  readonly socket: Socket
  readonly closed: Promise<unknown> // by the server, or lost
  #received: Buffer = Buffer.alloc(0)

  constructor(t: TestContext, { url }: { url: string }) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    this.socket.on('data', (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk])
    })
    this.socket.on('error', () => {}) // which comes before 'close'
    this.closed = Promise.race([once(this.socket, 'end'), once(this.socket, 'close')]).catch(
      () => {},
    )
    t.after(() => this.socket.destroy())
  }

  write(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()))
  }

  /** Reads the next response. Rejects if the connection ends first. */
  async read(): Promise<Answer> {
    const head = await this.#take(() => this.#received.indexOf('\r\n\r\n'))
    const [statusLine = '', ...lines] = head.toString('latin1').split('\r\n')
    const pairs = lines.map((line) => {
      return [line.split(':', 1)[0]?.toLowerCase(), line.replace(/^.*?: ?/, '')]
    })
    const headers: IncomingHttpHeaders = Object.fromEntries(pairs)
    const length = Number(headers['content-length'] ?? 0)
    const body = (await this.#take(() => 4 + length)).toString('utf8', 4)
    return { status: Number(statusLine.split(' ')[1]), headers, body }
  }

  /** Reads until the server closes its side, then closes the other. */
  async rest(): Promise<string> {
    await this.closed
    this.socket.end()
    return this.#received.toString()
  }

  /** Takes the received bytes up to a place, which is -1 until it is known. */
  async #take(place: () => number): Promise<Buffer> {
    for (;;) {
      const end = place()
      if (end >= 0 && this.#received.length >= end) {
        const taken = this.#received.subarray(0, end)
        this.#received = this.#received.subarray(end)
        return taken
      }
      if (this.socket.readableEnded || this.socket.destroyed) {
        throw new Error(`the connection ended after ${JSON.stringify(this.#received.toString())}`)
      }
      await Promise.race([once(this.socket, 'data').catch(() => {}), this.closed])
    }
  }
}

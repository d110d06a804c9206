// The executable in process: `main` with streams to read and signals to send.
import { EventEmitter } from 'node:events'
import type { TestContext } from 'node:test'
import { main } from '../src/cli.ts'
import { open, postHead } from './http/raw.ts'
import { assertNext, FakeStream, KEY, type RawConnection } from './support.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What `main` sees of a process: its streams, and its signals as events. */
export class FakeProcess extends EventEmitter {
  readonly stdout: FakeStream = new FakeStream()
  readonly stderr: FakeStream = new FakeStream()
}

export interface Serving {
  process: FakeProcess
  /** The base URL, as the greeting names it. */
  url: string
  /** The exit status. */
  status: Promise<number>
}

const GREETING = /^Petstore \S+ listens on (\S+)\r?\n/m

/** The URL that is greeted with; rejects where the program ends without a greeting. */
export async function greeted(ended: Promise<unknown>, ...streams: FakeStream[]): Promise<string> {
  const shown = () => streams.map(({ text }) => text).join('')
  const early = ended.then((status) => Promise.reject(new Error(`exit ${status}: ${shown()}`)))
  early.catch(() => {})
  const [, url = ''] = await Promise.race([...streams.map((stream) => stream.until(GREETING)), early])
  return url
}

/** Runs `main` until it has greeted; the end of the test stops it. */
export async function serve(
  t: TestContext,
  args: readonly string[] = ['--api-key', KEY],
  { env = {}, isTTY = false }: { env?: Environment; isTTY?: boolean } = {},
): Promise<Serving> {
  const process = new FakeProcess()
  process.stdout.isTTY = isTTY
  const status = main(args, { PORT: '0', ...env }, process)
  t.after(async () => {
    for (const signal of ['SIGTERM', 'SIGTERM']) process.emit(signal) // the second one waits for nothing
    await status
  })
  return { process, url: await greeted(status, process.stdout, process.stderr), status }
}

export interface Ended {
  status: number
  stdout: string
  stderr: string
}

/** Runs `main` to its end; a server that starts against expectation is stopped. */
export async function run(args: readonly string[], env: Environment = {}): Promise<Ended> {
  const process = new FakeProcess()
  for (const stream of [process.stdout, process.stderr]) stream.once('written', () => process.emit('SIGTERM'))
  const status = await main(args, env, process)
  return { status, stdout: process.stdout.text, stderr: process.stderr.text }
}

/** What is printed for a mistake in the command line or a variable. */
export function misuse(line: string): Ended {
  return { status: 2, stdout: '', stderr: `petstore-server: ${line}\n` }
}

/** A connection with a request in flight: its head is read, its body of two bytes is still to come. */
export async function begin(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  const connection = await open(t, petstore, postHead(2, 'Expect: 100-continue'))
  await assertNext(connection, 100)
  return connection
}

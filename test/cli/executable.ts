// The executable in process: `main` with streams to read and signals to send.
import { EventEmitter } from 'node:events'
import type { TestContext } from 'node:test'
import { main } from '../../src/cli/cli.ts'
import { greeted } from '../process.ts'
import { FakeStream, KEY } from '../support.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What `main` sees of a process: its streams, and its signals as events. */
export class FakeProcess extends EventEmitter {
  readonly stdout: FakeStream = new FakeStream()
  readonly stderr: FakeStream = new FakeStream()
}

export interface Serving {
  process: FakeProcess
  url: string
  status: Promise<number>
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
    process.emit('SIGTERM')
    process.emit('SIGTERM') // cuts off what is in flight
    await status
  })
  return { process, url: await greeted(status, process.stdout, process.stderr), status }
}

export interface Ended {
  status: number
  stdout: string
  stderr: string
}

/** What remains of a run that failed with a line. */
export function ended(status: number, line: string): Ended {
  return { status, stdout: '', stderr: `petstore-server: ${line}\n` }
}

export async function run(args: readonly string[], env: Environment = {}): Promise<Ended> {
  const process = new FakeProcess()
  for (const stream of [process.stdout, process.stderr])
    stream.once('written', () => process.emit('SIGTERM'))
  const status = await main(args, env, process)
  return { status, stdout: process.stdout.text, stderr: process.stderr.text }
}

// The executable in this process: its arguments, its environment, and what it writes.
import type { TestContext } from 'node:test'
import { main } from '../../src/cli/cli.ts'
import { Output } from '../process.ts'

interface Started {
  stdout: Output
  stderr: Output
  status: Promise<number>
}

export interface Serving extends Started {
  url: string
}

export type Environment = Readonly<Record<string, string>>

const EVENTS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'uncaughtException']
const events: NodeJS.EventEmitter = process

/** Sends this process a signal, as far as its listeners can tell. */
export function signal(name: 'SIGINT' | 'SIGTERM' | 'SIGHUP'): void {
  process.emit(name, name)
}

function launch(
  t: TestContext,
  args: readonly string[],
  env: Environment = {},
  isTTY = false,
): Started {
  const [stdout, stderr] = [new Output(), new Output()]
  stdout.isTTY = isTTY
  const mocks = [
    t.mock.getter(process, 'stdout', () => stdout),
    t.mock.getter(process, 'stderr', () => stderr),
  ]
  const before = EVENTS.map((name) => events.listeners(name))
  const status = main(args, { PORT: '0', ...env }).finally(() => {
    for (const { mock } of mocks) mock.restore()
    for (const [at, name] of EVENTS.entries()) {
      const added = events.listeners(name).filter((one) => !before[at]?.includes(one))
      for (const listener of added) Reflect.apply(events.off, events, [name, listener])
    }
  })
  return { stdout, stderr, status }
}

/** Starts the executable, until the end of the test. */
export async function serve(
  t: TestContext,
  args: readonly string[],
  { env, isTTY }: { env?: Environment; isTTY?: boolean } = {},
): Promise<Serving> {
  const started = launch(t, args, env, isTTY)
  const { stdout, stderr, status } = started
  t.after(() => {
    signal('SIGTERM')
    signal('SIGTERM') // cuts off what is in flight
    return status
  })
  const greeting = /^Petstore \S+ listens on (\S+)$/m
  const ended = status.then(() => Promise.reject(new Error(stderr.text)))
  const [, url = ''] = await Promise.race([stdout.until(greeting), stderr.until(greeting), ended])
  return { ...started, url }
}

/** A module for --store: it has one pet, and fails to add. */
export const STORE = `
export default async () => ({
  page: () => ({ json: '[{"id":1,"name":"Ours","categoryId":1}]' }),
  get: () => null,
  add() { throw new Error('a full disk') },
  reset: () => true,
  isWritable: () => true,
  close() {},
})`

export interface Ended {
  status: number
  stdout: string
  stderr: string
}

/** Runs the executable to its end; a server is stopped once it has written something. */
export async function run(
  t: TestContext,
  args: readonly string[],
  env?: Environment,
): Promise<Ended> {
  const { stdout, stderr, status } = launch(t, args, env)
  for (const output of [stdout, stderr]) output.on('text', () => signal('SIGTERM'))
  return { status: await status, stdout: stdout.text, stderr: stderr.text }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { greetingIn } from '../process.ts'
import { KEY } from '../support.ts'

/** The built server, as a process. */
export interface Server {
  url: string
  process: ChildProcess
  exited: Promise<Exit>
}

export interface Exit {
  /** Null where a signal ended it. */
  status: number | null
  stdout: string
  stderr: string
}

export interface Options {
  port?: number
  /** 'off' unless given; 'dropped' is JSON that goes to nowhere. */
  log?: 'off' | 'json' | 'dropped'
  nodeFlags?: readonly string[]
}

/** Starts the built server, on a free port unless given; resolves when it serves. The end of the test kills it. */
export async function serve(t: TestContext, flags: readonly string[] = [], options: Options = {}): Promise<Server> {
  const { port = 0, log = 'off', nodeFlags = [] } = options
  const format = log === 'dropped' ? 'json' : log
  const args = [...nodeFlags, 'dist/main.js', '--port', `${port}`, '--api-key', KEY, '--log', format, ...flags]
  const child = spawn(process.execPath, args, { stdio: ['ignore', log === 'dropped' ? 'ignore' : 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const outputs = [child.stdout, child.stderr].map((stream) => (stream === null ? '' : text(stream)))
  const exited = Promise.all([once(child, 'close'), ...outputs]).then(([[status], stdout = '', stderr = '']): Exit => ({
    status: status ?? undefined,
    stdout,
    stderr,
  }))
  const greeting = (log === 'off' ? child.stdout : child.stderr) ?? Readable.from([])
  const url = await greetingIn(greeting).catch(async () => {
    throw new Error(`The server did not start: ${(await exited).stderr}`)
  })
  return { url, process: child, exited }
}

/** Resident memory in KiB: now, or at its peak. */
export function residentKiB({ process }: Server, what: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  return Number(new RegExp(`${what}:\\s+(\\d+)`).exec(readFileSync(`/proc/${process.pid}/status`, 'utf8'))?.[1])
}

import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { type Log, run, type Running as Server } from '../process.ts'

export type { Running as Server } from '../process.ts'

interface Options {
  port?: number
  log?: Log
  nodeFlags?: readonly string[]
}

/** Starts the built server; the end of the test kills it. */
export async function serve(
  t: TestContext,
  flags: readonly string[] = [],
  { port, log, nodeFlags = [] }: Options = {},
): Promise<Server> {
  const server = await run([process.execPath, ...nodeFlags, 'dist/main.js', ...flags], port, log)
  t.after(() => server.process.kill('SIGKILL'))
  return server
}

/** Resident memory in KiB: now, or at its peak. */
export function residentKiB({ process }: Server, what: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  return Number(new RegExp(`${what}:\\s+(\\d+)`).exec(readFileSync(`/proc/${process.pid}/status`, 'utf8'))?.[1])
}

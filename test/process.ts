import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { KEY } from './support.ts'

/** A server that runs as a process. */
export interface Running {
  url: string
  process: ChildProcess
  /** Its status is null where a signal ended it. */
  exited: Promise<{ status: number | null; stdout: string; stderr: string }>
}

/** What the log is: 'off' unless given; 'dropped' is JSON that goes to nowhere. */
export type Log = 'off' | 'json' | 'dropped'

/** Starts the executable, on a free port unless given; resolves when it serves. */
export async function run([program = '', ...args]: readonly string[], port = 0, log: Log = 'off'): Promise<Running> {
  const flags = ['--port', `${port}`, '--api-key', KEY, '--log', log === 'off' ? 'off' : 'json']
  const child = spawn(program, [...args, ...flags], {
    stdio: ['ignore', log === 'dropped' ? 'ignore' : 'pipe', 'pipe'],
  })
  const outputs = [child.stdout, child.stderr].map((stream) => (stream === null ? '' : text(stream)))
  const ended = Promise.all([once(child, 'close'), ...outputs])
  const exited = ended.then(([[status], stdout = '', stderr = '']) => ({ status, stdout, stderr }))
  const greeting = (log === 'off' ? child.stdout : child.stderr) ?? Readable.from([])
  const url = await greetingIn(greeting).catch(async (error) => {
    throw new Error(`${error}${(await exited).stderr}`)
  })
  return { url, process: child, exited }
}

/** The URL that a server prints when it serves. */
export function greetingIn(output: Readable): Promise<string> {
  let text = ''
  return new Promise((resolve, reject) => {
    output.on('data', (chunk) => {
      const [url] = /http:\/\/\S+(?=\n)/.exec((text += chunk)) ?? []
      if (url !== undefined) resolve(url)
    })
    output.once('end', () => reject(new Error(`The server did not start: ${text}`)))
  })
}

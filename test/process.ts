import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable } from 'node:stream'
import { KEY } from './support.ts'

/** A server that runs as a process. */
export interface Running {
  url: string
  process: ChildProcess
}

/** Starts the executable, on a free port unless given, without a log; resolves when it serves. */
export async function run([program = '', ...args]: readonly string[], port = 0): Promise<Running> {
  const flags = ['--port', `${port}`, '--api-key', KEY, '--log', 'off']
  const process = spawn(program, [...args, ...flags], { stdio: ['ignore', 'pipe', 'inherit'] })
  return { url: await greetingIn(process.stdout), process }
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

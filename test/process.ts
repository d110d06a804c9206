import { type ChildProcess, spawn } from 'node:child_process'
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
  let output = ''
  for await (const chunk of process.stdout) {
    output += chunk
    const [url] = /http:\/\/\S+/.exec(output) ?? []
    if (url !== undefined) return { url, process }
  }
  throw new Error(`the server did not start: ${output}`)
}

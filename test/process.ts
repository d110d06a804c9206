// The executable as a process of its own, and what it writes.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import type { TestContext } from 'node:test'

/** The executable from its sources. */
export const EXECUTABLE: readonly string[] = [process.execPath, '--import', 'tsx', 'src/main.ts']

/** What a process writes to standard output or standard error. */
export class Output {
  text = ''
  readonly #stream: Readable

  constructor(stream: Readable) {
    this.#stream = stream.setEncoding('utf8').on('data', (chunk: string) => {
      this.text += chunk
    })
  }

  /** Waits until it has a text. Rejects if it ends before. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.text)
      if (found) return found
      if (this.#stream.readableEnded) throw new Error(`${pattern} is not in: ${this.text}`)
      await Promise.race([once(this.#stream, 'data'), once(this.#stream, 'end')])
    }
  }
}

export interface Running {
  readonly child: ChildProcess
  readonly stdout: Output
  readonly stderr: Output
  readonly status: Promise<number | null> // null after a signal that the process did not handle
}

export interface Server extends Running {
  readonly url: string
  readonly first: Readonly<Record<string, unknown>> // the first line of the log
}

/** The environment without what the test runner has put there: a child would report to it. */
export function environment(): NodeJS.ProcessEnv {
  return { ...process.env, NODE_TEST_CONTEXT: undefined }
}

/** Starts a program. The end of the test kills it. */
export function run(t: TestContext, command: readonly string[], env = {}): Running {
  const [program = '', ...args] = command
  const child = spawn(program, args, { env: { ...environment(), ...env }, detached: true })
  const status = once(child, 'close').then(([code]) => code)
  t.after(async () => {
    const isRunning = child.exitCode === null && child.signalCode === null
    if (isRunning && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    await status
  })
  return { child, stdout: new Output(child.stdout), stderr: new Output(child.stderr), status }
}

/** Starts a server with a JSON log on a free port, and waits until it listens. */
export async function launch(
  t: TestContext,
  args: readonly string[] = [],
  { env = {}, executable = EXECUTABLE } = {},
): Promise<Server> {
  const running = run(t, [...executable, '--log', 'json', ...args], { PORT: '0', ...env })
  const [line = ''] = await running.stdout.until(/^.*\n/).catch(() => {
    throw new Error(running.stderr.text)
  })
  const first: Readonly<Record<string, unknown>> = JSON.parse(line)
  return { ...running, first, url: String(first['url']) }
}

// Programs as processes of their own, and what they write.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Writable } from 'node:stream'
import type { TestContext } from 'node:test'

/** What stands in for standard output or standard error. */
export class Output extends Writable {
  text = ''
  isTTY = false

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    if (chunk.length > 0) this.emit('text')
    done()
  }

  /** Waits until it has a text. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.text)
      if (found) return found
      await once(this, 'text')
    }
  }
}

export interface Running {
  child: ChildProcess
  stdout: Output
  stderr: Output
  exited: Promise<unknown> // to its status
  url: string
}

/** The environment without what the test runner has put there: a child would report to it. */
export function environment(): NodeJS.ProcessEnv {
  return { ...process.env, NODE_TEST_CONTEXT: undefined }
}

/** Starts a program; the end of the test kills it. */
export function run(t: TestContext, command: readonly string[], env = {}): Omit<Running, 'url'> {
  const [program = '', ...args] = command
  const child = spawn(program, args, { env: { ...environment(), ...env }, detached: true })
  const exited = once(child, 'exit').then(([status]) => status)
  t.after(async () => {
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
    await exited
  })
  const [stdout, stderr] = [new Output(), new Output()]
  child.stdout.on('data', (chunk) => stdout.write(chunk))
  child.stderr.on('data', (chunk) => stderr.write(chunk))
  return { child, stdout, stderr, exited }
}

/** Starts the executable, and waits until it listens. */
export async function launch(
  t: TestContext,
  command: readonly string[],
  env = {},
): Promise<Running> {
  const running = run(t, command, env)
  const greeting = /^Petstore \S+ listens on (\S+)\r?$/m
  const { stdout, stderr, exited } = running
  const ended = exited.then(() => Promise.reject(new Error(stdout.text + stderr.text)))
  const [, url = ''] = await Promise.race([stdout.until(greeting), stderr.until(greeting), ended])
  return { ...running, url }
}

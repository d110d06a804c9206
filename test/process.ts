import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { FakeStream, KEY } from './support.ts'

/** The environment of a user, without what npm and the test runner have set up for this process. */
export const USER_ENV: Record<string, string | undefined> = { ...process.env }
for (const name of Object.keys(USER_ENV))
  if (/^(npm_|NODE_TEST_CONTEXT$|NODE_OPTIONS$|NODE_V8_)/.test(name)) delete USER_ENV[name]

/** The URL that a server greets with; rejects where it ends without a greeting. */
export async function greeted(ended: Promise<unknown>, ...streams: FakeStream[]): Promise<string> {
  const shown = () => streams.map(({ text }) => text).join('\n')
  const early = ended.then(() => Promise.reject(new Error(shown())))
  early.catch(() => {})
  for (;;) {
    const [, url] = /^Petstore \S+ listens on (\S+)\r?\n/m.exec(shown()) ?? []
    if (url !== undefined) return url
    await Promise.race([...streams.map((stream) => once(stream, 'written')), early])
  }
}

/**
 * Ends a child with this process, even if that is killed: a shell waits for the end of its input.
 * @param target A process, or a group as a negative number.
 */
function endWithUs(child: ChildProcess, target: number): void {
  const script = 'read -r _ || kill -KILL "$0" 2>&-'
  // In a group of its own, so that Ctrl-C does not end it first.
  const options: SpawnOptions = { stdio: ['pipe', 'ignore', 'ignore'], detached: true }
  const guard = spawn('sh', ['-c', script, `${target}`], options)
  guard.unref()
  guard.stdin?.on('error', () => {})
  child.once('exit', () => guard.stdin?.end('the child has ended\n'))
}

export class Running {
  url = ''
  readonly process: ChildProcess
  readonly stdout: FakeStream = new FakeStream()
  readonly stderr: FakeStream = new FakeStream()
  /** Its status is null where a signal ended it. */
  readonly exited: Promise<{ status: number | null; stdout: string; stderr: string }>

  constructor([program = '', ...args]: readonly string[], options: SpawnOptions = {}) {
    this.process = spawn(program, args, options)
    const pid = Number(this.process.pid)
    endWithUs(this.process, options.detached ? -pid : pid) // detached, it leads a group
    const { stdout, stderr } = this
    this.process.stdout?.setEncoding('utf8').on('data', (text) => stdout.write(text))
    this.process.stderr?.setEncoding('utf8').on('data', (text) => stderr.write(text))
    const closed = once(this.process, 'close')
    this.exited = closed.then(([status]) => ({ status, stdout: stdout.text, stderr: stderr.text }))
  }

  /** Waits for a text on either output; rejects where the process ends without it. */
  until(pattern: RegExp): Promise<RegExpExecArray> {
    const { stdout, stderr, exited } = this
    const early = exited.then((ended) => Promise.reject(new Error(ended.stdout + ended.stderr)))
    return Promise.race([stdout.until(pattern), stderr.until(pattern), early])
  }

  async serves(): Promise<this> {
    this.url = await greeted(this.exited, this.stdout, this.stderr)
    return this
  }
}

/** Starts the executable and waits until it serves; the end of the test kills it. */
export function run(t: TestContext, command: readonly string[], port = 0): Promise<Running> {
  const flags = ['--port', `${port}`, '--api-key', KEY, '--log', 'off']
  const running = new Running([...command, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  void running.exited.then(({ status, stderr }) => status && console.error(stderr))
  t.after(() => running.process.kill('SIGKILL'))
  return running.serves()
}

export function serve(t: TestContext, flags: string[] = [], port?: number): Promise<Running> {
  return run(t, [process.execPath, 'dist/main.js', ...flags], port)
}

/** Resident memory in KiB: now, or at its peak. */
export function residentKiB({ process }: Pick<Running, 'process'>, what = 'VmRSS'): number {
  const status = readFileSync(`/proc/${process.pid}/status`, 'utf8')
  return Number(new RegExp(`${what}:\\s+(\\d+)`).exec(status)?.[1])
}

// The executable in this process: for starts that end at once, as a process costs much more.
import { PassThrough } from 'node:stream'
import type { TestContext } from 'node:test'
import { main } from '../../src/cli/cli.ts'

export type Environment = Readonly<Record<string, string>>

export interface Ended {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs it to its end. */
export async function runMain(
  t: TestContext,
  args: readonly string[],
  env: Environment = {},
): Promise<Ended> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const mocks = [
    t.mock.getter(process, 'stdout', () => stdout),
    t.mock.getter(process, 'stderr', () => stderr),
  ]
  try {
    const status = await main(args, env)
    return { status, stdout: textOf(stdout), stderr: textOf(stderr) }
  } finally {
    for (const { mock } of mocks) mock.restore()
    for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal)
  }
}

function textOf(stream: PassThrough): string {
  return String(stream.read() ?? '')
}

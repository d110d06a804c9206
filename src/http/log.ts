import { inspect } from 'node:util'
import { clearTimeout, now, setImmediate, setTimeout } from '../clock.ts'
import { codeOf, messageOf } from '../errors.ts'
import type { Options } from '../types.ts'
import { type Reply, requestIdOf } from './reply.ts'
import type { Request } from './router.ts'

const MAX_TEXT = 1_000 // characters of a text that a client sent
const MAX_WAITING = 8 * 2 ** 20 // bytes: above this, lines are dropped until the reader catches up
const FLUSH_TIMEOUT = 450 // milliseconds

type Level = 'info' | 'warn' | 'error'
type Members = Readonly<Record<string, unknown>>

/** The log on standard output: a line for each request, without keys, queries and bodies. */
export class Log {
  readonly format: Options['log']
  #lines = '' // of this turn of the event loop, which are written together
  #dropped = 0 // lines since the last that was written
  #hasEnded = false

  constructor(format: Options['log']) {
    this.format = format
    // Without a listener, an error would end the process. The callback of `write` gets it, too.
    const { stdout } = process
    if (format !== 'off' && stdout.listenerCount('error') === 0) stdout.on('error', () => {})
  }

  /** @param reply Undefined if the client got none. */
  request(request: Request, reply: Reply | undefined, bytes: number): void {
    const { method, path, keyIndex, headers, remote, started } = request
    const { status = null, error, cause } = reply ?? {}
    const isBug = status === 500 && cause !== undefined
    if (this.format === 'off') {
      if (isBug) console.error(`petstore-server: ${inspect(cause)}`)
      return
    }
    this.line(levelOf(status), {
      method,
      path: shortened(path),
      status,
      ms: Math.round((now() - started) * 1_000) / 1_000,
      bytes,
      code: error?.code,
      cause: isBug ? inspect(cause) : cause && messageOf(cause),
      key: keyIndex,
      requestId: requestIdOf(headers),
      remote: plainAddress(remote),
      forwardedFor: shortened(headers['x-forwarded-for']?.toString()),
    })
  }

  /** A request that could not be read. */
  refused({ status, error }: Reply, remote: string): void {
    const message = 'a request could not be read'
    this.line('info', { message, status, code: error?.code, remote: plainAddress(remote) })
  }

  /** @param members Those that are undefined are left out. */
  line(level: Level, members: Members): void {
    if (this.format === 'off' || this.#hasEnded) return
    if (process.stdout.writableLength > MAX_WAITING) {
      this.#dropped++
      return
    }
    if (this.#dropped > 0) {
      const message = `log lines lost before this one: ${this.#dropped}`
      this.#dropped = 0
      this.line('warn', { message })
    }
    if (this.#lines === '') setImmediate(() => this.#write())
    this.#lines += this.format === 'json' ? jsonLine(level, members) : textLine(level, members)
  }

  #write(onWritten?: () => void): void {
    const lines = this.#lines
    this.#lines = ''
    process.stdout.write(lines, (error) => {
      if (error) this.#onFailure(error, lines)
      onWritten?.()
    })
  }

  /** A closed pipe ends the log, not the server. Anything else, such as a full disk, may pass. */
  #onFailure(error: Error, lines: string): void {
    this.#dropped += lines.split('\n').length - 1
    if (codeOf(error) === 'EPIPE') this.#hasEnded = true
  }

  /** Resolves when all lines so far have left the process, or after FLUSH_TIMEOUT. */
  flush(): Promise<void> {
    if (this.format === 'off') return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, FLUSH_TIMEOUT)
      this.#write(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

function levelOf(status: number | null): Level {
  if (status === 500) return 'error'
  return status === 503 ? 'warn' : 'info'
}

function shortened(text = ''): string | undefined {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text || undefined
}

/** An IPv4 client, also of a server that listens on IPv6. */
function plainAddress(remote: string): string {
  return remote.replace(/^::ffff:/, '')
}

function jsonLine(level: Level, members: Members): string {
  return `${JSON.stringify({ time: new Date().toISOString(), level, ...members })}\n`
}

function textLine(level: Level, members: Members): string {
  const { message, ...others } = members
  const text = message === undefined ? requestText(others) : `${message}${pairsOf(others)}`
  // Further lines are indented, so that none looks like another event. The rest is in ASCII,
  // because terminals act on some other characters.
  const indented = text.replaceAll('\n', '\n    ')
  const ascii = indented.replace(/[^\n -~]/g, (unit) => `\\u{${unit.charCodeAt(0).toString(16)}}`)
  return `${new Date().toISOString()} ${level} ${ascii}\n`
}

function requestText({ method, path, status, ms, bytes, ...others }: Members): string {
  return `${method} ${path} ${status ?? 'no response'} ${ms} ms ${bytes} B${pairsOf(others)}`
}

function pairsOf(members: Members): string {
  const pairs = Object.entries(members).filter(([, value]) => value !== undefined)
  return pairs.map(([name, value]) => ` ${name}=${value}`).join('')
}

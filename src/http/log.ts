import { clearTimeout, setImmediate, setTimeout } from '../clock.ts'
import { messageOf } from '../errors.ts'
import type { Exchange } from './exchange.ts'
import { requestIdOf } from './headers.ts'
import type { Reply } from './router.ts'

type Level = 'info' | 'warn' | 'error'
type Members = Readonly<Record<string, string | number | null | undefined>>

const MAX_TEXT = 1_000 // characters of a text that a client sent
const MAX_BUFFERED = 8 * 2 ** 20 // bytes: beyond them lines are lost until the reader reads on
const FLUSH_TIMEOUT = 450 // milliseconds

/** The log on standard output: a line for each request, without keys, queries and bodies. */
export class Log {
  readonly #format: 'text' | 'json' | 'off'
  #lines: string[] = [] // of this turn of the event loop
  #lost = 0 // lines since the last that was written
  #isClosed = false

  constructor(format: 'text' | 'json' | 'off') {
    this.#format = format
    // Without a listener, an error would end the process. The callback of `write` gets it, too.
    const { stdout } = process
    if (format !== 'off' && stdout.listenerCount('error') === 0) stdout.on('error', () => {})
  }

  get isOff(): boolean {
    return this.#format === 'off'
  }

  request(exchange: Exchange): void {
    if (this.isOff) return
    const { req, path, key, reply, duration, bytes, remote } = exchange
    const { headers, method = '' } = req
    const { status = null, error, cause } = reply ?? {}
    this.#add(levelOf(status), {
      method,
      path: shortened(path),
      status,
      ms: duration,
      bytes,
      code: error?.code,
      cause: cause === undefined ? undefined : messageOf(cause),
      key,
      requestId: requestIdOf(headers),
      remote: plainAddress(remote),
      forwardedFor: shortened(headers['x-forwarded-for']?.toString()),
    })
  }

  /** A request that could not be read. */
  refused({ status, error }: Reply, remote: string): void {
    this.#add('info', { status, code: error?.code, remote: plainAddress(remote) })
  }

  /** @param members More members of a JSON line. */
  event(level: Level, message: string, members: Members = {}): void {
    this.#add(level, { message, ...members })
  }

  /** Resolves when all lines so far have left the process, or after half a second. */
  flush(): Promise<void> {
    this.#write()
    if (this.isOff) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, FLUSH_TIMEOUT)
      process.stdout.write('', () => {
        clearTimeout(timer)
        resolve()
      })
    })
  }

  #add(level: Level, members: Members): void {
    if (this.isOff) return
    if (this.#lines.length === 0) setImmediate(() => this.#write())
    this.#lines.push(this.#line(level, members))
  }

  #line(level: Level, members: Members): string {
    return this.#format === 'json' ? jsonLine(level, members) : textLine(level, members)
  }

  #write(): void {
    const lines = this.#lines
    this.#lines = []
    if (lines.length === 0 || this.#isClosed) return
    if (process.stdout.writableLength > MAX_BUFFERED) {
      this.#lost += lines.length
      return
    }
    const count = this.#lost + lines.length
    if (this.#lost > 0) {
      const message = `lines that were lost, because they could not be written: ${this.#lost}`
      lines.unshift('\n', this.#line('warn', { message })) // the last one may have been cut off
      this.#lost = 0
    }
    process.stdout.write(lines.join(''), (error) => {
      if (error) this.#onFailure(error, count)
    })
  }

  /** A closed pipe ends the log, not the server. Anything else, such as a full disk, may pass. */
  #onFailure({ code, message }: NodeJS.ErrnoException, count: number): void {
    this.#lost += count
    if (this.#isClosed || (code !== 'EPIPE' && !process.stdout.destroyed)) return
    this.#isClosed = true
    console.error(`petstore-server: the log has ended: ${message}`)
  }
}

function levelOf(status: number | null): Level {
  if (status === 500) return 'error'
  return status === 503 ? 'warn' : 'info'
}

function shortened<T extends string | undefined>(text: T): string | T {
  return text && text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT - 1)}…` : text
}

/** An IPv4 client, also of a server that listens on IPv6. */
function plainAddress(remote: string): string {
  return remote.startsWith('::ffff:') ? remote.slice('::ffff:'.length) : remote
}

// Concatenated: JSON.stringify of an object takes three times as long.
function jsonLine(level: Level, members: Members): string {
  let line = `{"time":"${timestamp()}","level":"${level}"`
  for (const name in members) {
    const value = members[name]
    if (value === undefined) continue
    line += `,"${name}":${typeof value === 'string' ? quoted(value) : value}`
  }
  return `${line}}\n`
}

function textLine(level: Level, members: Members): string {
  const { message, method = '-', path = '-', status, ms, bytes, ...others } = members
  // Further lines are indented, so that none looks like another event.
  if (message !== undefined) {
    const text = escaped(String(message)).replaceAll('\n', '\n    ')
    return `${timestamp()} ${level}: ${text}\n`
  }
  let line = `${timestamp()} ${level} ${word(String(method))} ${word(String(path))} `
  line += status ?? 'no response'
  if (ms !== undefined) line += ` ${ms} ms ${bytes} B`
  for (const [name, value] of Object.entries(others)) {
    if (value !== undefined) line += ` ${name}=${word(String(value))}`
  }
  return `${line}\n`
}

let lastTime = 0
let lastTimestamp = ''

/** The time, formatted once in a millisecond. */
function timestamp(): string {
  const time = Date.now()
  if (time !== lastTime) {
    lastTime = time
    lastTimestamp = new Date(time).toISOString()
  }
  return lastTimestamp
}

const NEEDS_NO_ESCAPE = /^[ !#-[\]-~]*$/ // printable ASCII, but no " or \
const WORD = /^[!#-[\]-~]+$/ // the same, but no space

function quoted(text: string): string {
  return NEEDS_NO_ESCAPE.test(text) ? `"${text}"` : escaped(JSON.stringify(text))
}

/** A text in quotes unless it is a single word, so that a space in it cannot start a member. */
function word(text: string): string {
  return WORD.test(text) ? text : quoted(text)
}

/** In ASCII, because terminals act on some other characters. Newlines stay. */
function escaped(text: string): string {
  return text.replace(/[\0-\t\v-\x1f\u007f-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

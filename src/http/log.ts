import type { Writable } from 'node:stream'
import type { RequestRecord } from './dispatch.ts'
import { readRequestId } from './headers.ts'

export type LogFormat = 'text' | 'json' | 'off'
export type LogLevel = 'info' | 'warn' | 'error'

export interface Log {
  readonly on: boolean
  /** Logs a request: no header, body or query value, because those can hold secrets. Absent if the log is off. */
  readonly request?: (request: RequestRecord) => void
  event(level: LogLevel, message: string): void
  /** Resolves when all lines so far have left the process, or after two seconds. */
  flush(): Promise<void>
}

const FLUSH_TIMEOUT = 2_000
// Lines beyond this are dropped, and counted, until the reader of the log catches up.
const MAX_BUFFERED_BYTES = 16 * 2 ** 20

/**
 * Writes a log to a stream. Lines of one turn of the event loop go out in one write. A stream that fails ends the log, not the
 * server.
 *
 * @param redact Replaces the API keys in what a client sent.
 */
export function createLog(format: LogFormat, stream: Writable, redact: (text: string) => string): Log {
  if (format === 'off') return { on: false, event() {}, async flush() {} }
  const { request: requestLine, event: eventLine } = FORMATS[format]
  let lines: string[] = []
  let dropped = 0
  let hasFailed = false
  if (stream.listenerCount('error') === 0) stream.on('error', () => {}) // the callback of `write` gets the error too

  function add(line: string): void {
    if (lines.push(line) === 1) setImmediate(write, () => {})
  }

  function write(done: () => void): void {
    if (stream.writableLength > MAX_BUFFERED_BYTES) {
      dropped += lines.length
      lines = []
    } else if (dropped > 0) {
      lines.push(eventLine('warn', `${dropped} lines were dropped: the log's reader is too slow`))
      dropped = 0
    }
    const batch = lines.join('')
    lines = []
    if (hasFailed) return done()
    stream.write(batch, (error) => {
      hasFailed ||= error instanceof Error
      done()
    })
  }

  return {
    on: true,
    request: (request) => add(requestLine(request, redact)),
    event: (level, message) => add(eventLine(level, message)),
    flush: () =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, FLUSH_TIMEOUT)
        write(() => {
          clearTimeout(timer)
          resolve()
        })
      }),
  }
}

type LineFormat = Record<'request', (request: RequestRecord, redact: (text: string) => string) => string> &
  Record<'event', (level: LogLevel, message: string) => string>

const FORMATS: Record<'json' | 'text', LineFormat> = {
  json: {
    // Concatenated, because JSON.stringify of an object takes twice as long.
    request({ head, operation, status = null, ms, bytes, remote }, redact) {
      const { requestId, forwardedFor, target } = clientText(head, redact)
      const what = `${member('method', head?.method)}${member('path', target)}${member('operation', operation)}`
      const who = `${member('requestId', requestId)}${member('remote', remote)}${member('forwardedFor', forwardedFor)}`
      return `{"time":"${now()}"${what},"status":${status},"ms":${round(ms)},"bytes":${bytes}${who}}\n`
    },
    event: (level, message) => `${JSON.stringify({ time: now(), level, message })}\n`,
  },
  text: {
    request({ head, operation, status = 'client left', ms, bytes, remote }, redact) {
      const { target = '-', requestId, forwardedFor } = clientText(head, redact)
      const shown = { operation, requestId, remote, forwardedFor }
      const more = Object.entries(shown).map(([name, value]) => (value === undefined ? '' : ` ${name}=${value}`))
      const line = `${now()} ${head?.method ?? '-'} ${target} ${status} ${round(ms)} ms ${bytes} B${more.join('')}`
      return `${line.replace(CONTROL, '?')}\n`
    },
    event: (level, message) => `${now()} ${level}: ${message}\n`,
  },
}

// What a terminal could take for a command.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g
// What JSON takes between quotes as it stands.
const PLAIN = /^[ !#-[\]-~]*$/
const NOT_ASCII = /[\u007f-\uffff]/g

let lastTime = 0
let lastText = ''

/** Formats the time once a millisecond. */
function now(): string {
  const time = Date.now()
  if (time !== lastTime) lastText = new Date(time).toISOString()
  lastTime = time
  return lastText
}

function round(ms: number): number {
  return Math.round(ms * 1000) / 1000
}

function member(name: string, value: string | undefined): string {
  if (value === undefined) return ''
  return `,"${name}":${PLAIN.test(value) ? `"${value}"` : JSON.stringify(value).replace(NOT_ASCII, escaped)}`
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** What a client wrote, without keys and query values. */
function clientText(head: RequestRecord['head'], redact: (text: string) => string) {
  if (head === undefined) return {}
  const requestId = readRequestId(head.headers)
  const forwardedFor = head.headers['x-forwarded-for']?.toString()
  return {
    target: hideValues(redact(head.target)),
    requestId: requestId && redact(requestId),
    forwardedFor: forwardedFor && redact(forwardedFor),
  }
}

function hideValues(target: string): string {
  const mark = target.indexOf('?')
  return mark < 0 ? target : target.slice(0, mark) + target.slice(mark).replace(/=[^&]*/g, '=…')
}

import type { Writable } from 'node:stream'
import type { RequestRecord } from './dispatch.ts'
import { clock, readRequestId } from './headers.ts'

type LogLevel = 'info' | 'warn' | 'error'

export interface Log {
  readonly on: boolean
  readonly request?: (request: RequestRecord) => void // no header, body or query value: those can hold secrets
  event(level: LogLevel, message: string): void
  flush(): Promise<void> // resolves when all lines so far have left the process, or after two seconds
}

const FLUSH_TIMEOUT = 2_000
const REPORT_INTERVAL = 10_000
// Lines beyond this are dropped, and counted, until the reader of the log catches up.
const MAX_BUFFERED_BYTES = 16 * 2 ** 20
// No line will ever be written again; after any other error the next one may be.
const CLOSED = /^(?:EPIPE|ERR_STREAM_DESTROYED|ERR_STREAM_WRITE_AFTER_END)$/

/** Writes a log. What cannot be written is dropped and counted; a closed stream ends the log, not the server. */
export function createLog(format: 'text' | 'json' | 'off', stream: Writable, redact: (text: string) => string): Log {
  if (format === 'off') return { on: false, event() {}, async flush() {} }
  const isJson = format === 'json'
  const eventLine = (level: LogLevel, message: string) =>
    isJson ? `${JSON.stringify({ time: now(), level, message })}\n` : `${now()} ${level}: ${message}\n`
  let lines = ''
  let count = 0
  let dropped = 0
  let reason = ''
  let isClosed = false
  if (stream.listenerCount('error') === 0) stream.on('error', () => {}) // the callback of `write` gets the error too

  function add(line: string): void {
    lines += line
    if (count++ === 0) setImmediate(write) // all lines of this turn of the event loop in one write
  }

  function write(): void {
    const lost = dropped + count
    if (dropped > 0) lines += eventLine('warn', `${dropped} lines were dropped: ${reason}`)
    const batch = lines
    lines = ''
    count = dropped = 0
    if (batch === '' || isClosed) return
    if (stream.writableLength > MAX_BUFFERED_BYTES) {
      dropped = lost
      reason = "the log's reader is too slow"
    } else stream.write(batch, (error) => error && fail(error, lost))
  }

  function fail({ code = '', message }: NodeJS.ErrnoException, lost: number): void {
    dropped += lost
    reason = message
    lines = `\n${lines}` // ends a line that was cut off
    if (!CLOSED.test(code) || isClosed) return
    isClosed = true
    console.error(`petstore-server: the log has ended: ${message}`)
  }

  return {
    on: true,
    request: (request) => add(requestLine(request, isJson, redact)),
    event: (level, message) => add(eventLine(level, message)),
    flush: () =>
      new Promise((resolve) => {
        write()
        const timer = setTimeout(resolve, FLUSH_TIMEOUT)
        stream.write('', () => resolve(clearTimeout(timer)))
      }),
  }
}

function requestLine(request: RequestRecord, isJson: boolean, redact: (text: string) => string): string {
  const { head, operation, status, bytes, remote } = request
  const ms = Math.round(request.ms * 1000) / 1000
  const named = isJson ? jsonMember : textMember
  const redacted = (name: string, text: string | undefined) => named(name, text && redact(text))
  const path = head && hideValues(redact(head.target))
  const what = named('operation', operation)
  const forwardedFor = redacted('forwardedFor', head?.headers['x-forwarded-for']?.toString())
  const who = redacted('requestId', head && readRequestId(head.headers)) + named('remote', remote) + forwardedFor
  if (!isJson) {
    const line = `${now()} ${head?.method ?? '-'} ${path ?? '-'} ${status ?? 'client left'} ${ms} ms ${bytes} B${what}${who}`
    return `${line.replace(CONTROL, '?')}\n`
  }
  // Concatenated, because JSON.stringify of an object takes twice as long.
  const start = `{"time":"${now()}","level":"${status === 500 ? 'error' : 'info'}"`
  const target = `${named('method', head?.method)}${named('path', path)}`
  return `${start}${target}${what},"status":${status ?? null},"ms":${ms},"bytes":${bytes}${who}}\n`
}

// What a terminal could take for a command.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g
// What JSON takes between quotes as it stands.
const PLAIN = /^[ !#-[\]-~]*$/
const NOT_ASCII = /[\u007f-\uffff]/g

type Member = (name: string, value: string | undefined) => string
const textMember: Member = (name, value) => (value === undefined ? '' : ` ${name}=${value}`)
const jsonMember: Member = (name, value) => (value === undefined ? '' : `,"${name}":${quoted(value)}`)
const quoted = (value: string) => (PLAIN.test(value) ? `"${value}"` : JSON.stringify(value).replace(NOT_ASCII, escaped))
const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
const now = clock(1, (time) => time.toISOString())

function hideValues(target: string): string {
  const mark = target.indexOf('?')
  return mark < 0 ? target : target.slice(0, mark) + target.slice(mark).replace(/=[^&]*/g, '=…')
}

/** Counts what happens, and reports it: at once, then all of ten seconds together. */
export function countingReport(report: (message: string) => void): (what: string) => void {
  const counts = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  const tell = () => {
    timer = counts.size > 0 ? setTimeout(tell, REPORT_INTERVAL).unref() : undefined
    for (const [what, count] of counts) report(`${what}: ${count}`)
    counts.clear()
  }
  return (what) => {
    counts.set(what, (counts.get(what) ?? 0) + 1)
    if (timer === undefined) tell()
  }
}

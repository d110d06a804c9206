import type { Outcome } from './exchange.ts'
import { readRequestId } from './reply.ts'
import { timeWriter } from './time.ts'

/** `text` for people, `json` for machines (a line each), `off` for neither. */
export type LogFormat = 'text' | 'json' | 'off'

/** Where log lines go: what a log uses of `stream.Writable`. */
export interface LogStream {
  readonly writableLength: number
  write(text: string, done: () => void): unknown
  on(event: 'error', listener: () => void): unknown
}

/** The log of one server. */
export interface Log {
  /** Whether anything is written: what would go into an entry need not be gathered otherwise. */
  readonly on: boolean
  /** Logs a request. No header, body or query value is among it: those could hold secrets. */
  request(outcome: Outcome): void
  /** Logs what is no request. */
  event(level: 'info' | 'warn' | 'error', message: string): void
  /** Resolves when all lines so far have left the process, or do not within two seconds. */
  flush(): Promise<void>
}

/** The log that writes nothing. */
export const NO_LOG: Log = { on: false, request() {}, event() {}, async flush() {} }

// How long a reader of the log that has stalled can hold up the end of the process.
const FLUSH_TIMEOUT = 2_000
// What may wait for a reader of the log that has stalled; the lines beyond it are dropped, and counted.
const MAX_WAITING_BYTES = 16 * 2 ** 20

/**
 * Writes a log to a stream: lines gather while the event loop turns and leave together in one write, which makes a line
 * cost a request next to nothing. A stream that fails (EPIPE) ends the log and not the server.
 *
 * @param redact Blots out the keys in what a client sent.
 */
export function createLog(format: LogFormat, stream: LogStream, redact: (text: string) => string): Log {
  if (format === 'off') return NO_LOG
  const line = FORMATS[format]
  const stamp = timeWriter(1, (time) => time.toISOString())
  let lines: string[] = []
  let dropped = 0
  const state = watch(stream)

  function add(text: string): void {
    if (lines.push(text) === 1) setImmediate(drain, () => {})
  }

  function drain(done: () => void): void {
    let batch = lines.join('')
    if (stream.writableLength > MAX_WAITING_BYTES) {
      dropped += lines.length
      batch = ''
    } else if (dropped > 0) {
      batch += line.event(stamp(Date.now()), 'warn', `${dropped} lines were dropped: the log's reader is too slow`)
      dropped = 0
    }
    lines = []
    if (state.broken) done()
    else stream.write(batch, done)
  }

  return {
    on: true,
    request: (outcome) => add(line.request(stamp(outcome.time), outcome, redact)),
    event: (level, message) => add(line.event(stamp(Date.now()), level, message)),
    flush: () =>
      new Promise((resolve) => {
        const timer = setTimeout(resolve, FLUSH_TIMEOUT)
        drain(() => {
          clearTimeout(timer)
          resolve()
        })
      }),
  }
}

/** Whether a stream has failed; the streams are watched once, however many logs write to one. */
function watch(stream: LogStream): { broken: boolean } {
  const known = watched.get(stream)
  if (known !== undefined) return known
  const state = { broken: false }
  watched.set(stream, state)
  stream.on('error', () => {
    state.broken = true
  })
  return state
}

const watched = new WeakMap<LogStream, { broken: boolean }>()

type Shown = Record<'method' | 'target' | 'operation' | 'requestId' | 'remote' | 'forwardedFor', string | undefined> &
  Record<'ms' | 'bytes', number> & { status: number | null }

interface Line {
  request(time: string, outcome: Outcome, redact: (text: string) => string): string
  event(time: string, level: string, message: string): string
}

const FORMATS: Record<'json' | 'text', Line> = {
  json: {
    // By hand, and with what was redacted kept: 0.7 µs a line and not 1.1, which JSON.stringify of an object takes.
    request(time, outcome, redact) {
      const { method, target, operation, status, ms, bytes, requestId, remote, forwardedFor } = shown(outcome, redact)
      const what = target === undefined ? '' : asked(method, target, operation)
      const who = `${member('requestId', requestId)}${member('remote', remote)}${member('forwardedFor', forwardedFor)}`
      return `{"time":"${time}"${what},"status":${status},"ms":${decimals(ms)},"bytes":${bytes}${who}}\n`
    },
    event: (time, level, message) => `${JSON.stringify({ time, level, message })}\n`,
  },
  text: {
    request(time, outcome, redact) {
      const { method, target, status, ms, bytes, ...rest } = shown(outcome, redact)
      const more = Object.entries(rest).map(([name, value]) => (value === undefined ? '' : ` ${name}=${value}`))
      const line = `${time} ${method ?? '-'} ${hideValues(target ?? '-')} ${status ?? 'client left'} ${decimals(ms)} ms ${bytes} B${more.join('')}`
      return `${line.replace(CONTROL, '?')}\n`
    },
    event: (time, level, message) => `${time} ${level}: ${message}\n`,
  },
}

// What JSON takes between quotes as it stands.
const PLAIN = /^[ !#-[\]-~]*$/

function member(name: string, value: string | undefined): string {
  if (value === undefined) return ''
  return `,"${name}":${PLAIN.test(value) ? `"${value}"` : asciiJson(value)}`
}

// To write a fraction takes 0.1 µs, and most requests take one of few.
const MAX_DECIMALS = 10_000
const knownDecimals: string[] = []

/** Milliseconds to the microsecond. */
function decimals(ms: number): string {
  const microseconds = Math.round(ms * 1000)
  if (microseconds >= MAX_DECIMALS) return String(microseconds / 1000)
  return (knownDecimals[microseconds] ??= String(microseconds / 1000))
}

// A text with other characters would make the whole batch of lines one of two bytes a character, and slower to write.
function asciiJson(value: string): string {
  return JSON.stringify(value).replace(NOT_ASCII, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const NOT_ASCII = /[\u007f-\uffff]/g
const MAX_KNOWN = 1_000
const MAX_KNOWN_LENGTH = 300
// By operation, for GET and POST of one target take turns.
const KNOWN = new Map<string | undefined, Map<string, { method: string | undefined; text: string }>>()

/**
 * The members that tell what was asked for. Most often it was before, and is written as it was: 1 % of a request less, 4 where
 * there is a query.
 *
 * @param target Redacted: keys that are exchanged make it another one.
 */
function asked(method: string | undefined, target: string, operation: string | undefined): string {
  let targets = KNOWN.get(operation)
  if (targets === undefined) KNOWN.set(operation, (targets = new Map()))
  const known = targets.get(target)
  if (known !== undefined && known.method === method) return known.text
  const text = `${member('method', method)}${member('path', hideValues(target))}${member('operation', operation)}`
  if (targets.size === MAX_KNOWN) targets.clear()
  if (target.length + text.length <= MAX_KNOWN_LENGTH) targets.set(target, { method, text })
  return text
}

// What a terminal could take for a command; JSON escapes it by itself.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g

/** What is shown of a request: keys are blotted out of all that the client wrote, and the query's values are still to be hidden. */
function shown(outcome: Outcome, redact: (text: string) => string): Shown {
  const { head, operation, status = null, ms, bytes, remote } = outcome
  const requestId = readRequestId(head?.headers['x-request-id'])
  const forwardedFor = head?.headers['x-forwarded-for']?.toString()
  return {
    method: head?.method,
    target: head && redact(head.target),
    operation,
    status,
    ms,
    bytes,
    requestId: requestId && redact(requestId),
    remote,
    forwardedFor: forwardedFor && redact(forwardedFor),
  }
}

/** A request target without what the names in its query are set to. */
function hideValues(target: string): string {
  const mark = target.indexOf('?')
  return mark < 0 ? target : target.slice(0, mark) + target.slice(mark).replace(/=[^&]*/g, '=…')
}

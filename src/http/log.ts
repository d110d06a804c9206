import type { Writable } from 'node:stream'
import { clearTimeout, setTimeout } from '../runtime.ts'
import { cachedTimestamp } from './clock.ts'
import type { RequestHead, RequestOutcome } from './dispatch.ts'
import { EventCounter, type LogLevel } from './event-counter.ts'
import { messageOf } from '../guards.ts'
import { readRequestId, readTraceId } from './headers.ts'
import { HEAP_LIMIT } from './limits.ts'
import { readTarget } from './router.ts'

type Redact = (text: string) => string
type Members = Readonly<Record<string, string | number | undefined>>

export interface Log {
  /** Makes a logger of a store's requests. Bodies and query values may be secret: it omits them. */
  readonly requestLogger?: (redact: Redact) => (request: RequestOutcome) => void
  /** @param members More members of a JSON line. */
  event(level: LogLevel, message: string, members?: Members): void
  /** Logs the first event of a kind at once; its repeats within 10 s as one line, with a count. */
  count(level: LogLevel, what: string): void
  /** Takes how many requests have ended since the last call, by class of status such as 2xx. */
  takeCounts(): ReadonlyMap<string, number>
  /** Resolves when all lines so far have left the process, or after half a second. */
  flush(): Promise<void>
}

const BATCH_DELAY = 5 // milliseconds
// Characters, after which a batch does not wait: a busy turn of the event loop, which lasts longer
// than the delay, may log any number of lines.
const BATCH_LENGTH = 64 * 2 ** 10
const FLUSH_TIMEOUT = 450 // a stop flushes twice, within a second
// Beyond this, lines are dropped until the reader catches up. V8 may take four times as much.
const MAX_BUFFERED_BYTES = Math.min(16 * 2 ** 20, HEAP_LIMIT / 16)

/** @param redact Takes the keys out of the message of an event. */
export function openLog(format: 'text' | 'json' | 'off', stream: Writable, redact: Redact): Log {
  if (format === 'off')
    return { event() {}, count() {}, takeCounts: () => new Map(), async flush() {} }
  const isJson = format === 'json'
  const requestLine = isJson ? jsonLine : textLine
  const eventLine = isJson ? jsonEvent : textEvent
  // Without a listener, an error ends the process. The callback of `write` gets it, too.
  if (stream.listenerCount('error') === 0) stream.on('error', () => {})
  const writeBatch = batchWriter(stream, (lost, reason) =>
    eventLine('warn', `${lost} lines were dropped: ${reason}`),
  )
  const { add, write } = inBatches(writeBatch)
  const event: Log['event'] = (level, message, members) =>
    add(eventLine(level, redact(message), members))
  const counter = new EventCounter(event)
  const { countRequest, takeCounts } = requestCounter()
  return {
    requestLogger: (redactRequest) => (request) => {
      countRequest(request)
      add(requestLine(request, redactRequest))
    },
    takeCounts,
    event,
    count: (level, what) => counter.count(level, what),
    flush() {
      counter.report()
      write()
      return new Promise((resolve) => {
        const timer = setTimeout(resolve, FLUSH_TIMEOUT)
        stream.write('', () => {
          clearTimeout(timer)
          resolve()
        })
      })
    },
  }
}

const CLASSES = ['unanswered', '1xx', '2xx', '3xx', '4xx', '5xx']

/** Counts requests by class of status until they are taken. */
function requestCounter() {
  let counts = new Map<string, number>()

  function countRequest({ reply }: RequestOutcome): void {
    const status = CLASSES[Math.trunc((reply?.status ?? 0) / 100)] ?? ''
    counts.set(status, (counts.get(status) ?? 0) + 1)
  }

  function takeCounts(): ReadonlyMap<string, number> {
    const taken = counts
    counts = new Map()
    return taken
  }
  return { countRequest, takeCounts }
}

const unwritten = new Set<() => void>() // of all logs: Node warns of more than ten 'exit' listeners
process.on('exit', () => {
  for (const write of unwritten) write()
})

/** Collects lines, and hands them over in batches. */
function inBatches(writeBatch: (batch: string) => void) {
  let lines = ''

  function add(line: string): void {
    if (lines === '') setTimeout(write, BATCH_DELAY)
    unwritten.add(write)
    lines += line
    if (lines.length >= BATCH_LENGTH) write()
  }

  function write(): void {
    const batch = lines
    lines = ''
    unwritten.delete(write)
    writeBatch(batch)
  }
  return { add, write }
}

/**
 * Writes batches of lines, and counts lost ones. A closed stream ends the log, not the server.
 *
 * @param warning Makes the line that tells how many lines were lost.
 */
function batchWriter(stream: Writable, warning: (lost: number, reason: string) => string) {
  let lost = 0 // lines since the last batch that was handed over
  let reason = '' // why they were lost
  let lineEnd = '' // ends a line that may have been cut off
  let isClosed = false

  function writeBatch(batch: string): void {
    const atRisk = lost + batch.split('\n').length - 1 // lines that are lost if this fails
    if (isClosed) return
    if (stream.writableLength > MAX_BUFFERED_BYTES) {
      lost = atRisk
      reason = "the log's reader is too slow"
      return
    }
    const report = lost > 0 ? lineEnd + warning(lost, reason) : ''
    lost = 0
    lineEnd = ''
    stream.write(report + batch, (error) => error && onFailure(error, atRisk))
  }

  function onFailure({ code, message }: NodeJS.ErrnoException, count: number): void {
    lost += count
    reason = message
    lineEnd = '\n'
    if (isClosed || (code !== 'EPIPE' && !stream.destroyed)) return // it may pass
    isClosed = true
    console.error(`petstore-server: the log has ended: ${message}`)
  }
  return writeBatch
}

const now = cachedTimestamp(1, (time) => time.toISOString())

const LEVELS: Readonly<Record<number, LogLevel>> = { 500: 'error', 503: 'warn' }

// Concatenated: JSON.stringify of an object takes longer.
function jsonLine(request: RequestOutcome, redact: Redact): string {
  const { head, reply, ms, bytes } = request
  const level = LEVELS[reply?.status ?? 0] ?? 'info'
  const method = head && redact(head.method)
  const path = head && targetOf(head, redact)
  return (
    `{"time":"${now()}","level":"${level}"${jsonMember('method', method)}` +
    `${jsonMember('path', path)},"status":${reply?.status ?? null},"ms":${ms},"bytes":${bytes}` +
    `${otherMembers(request, redact, jsonMember)}}\n`
  )
}

function textLine(request: RequestOutcome, redact: Redact): string {
  const { head, reply, ms, bytes } = request
  const requested = head ? `${redact(head.method)} ${word(targetOf(head, redact))}` : '- -'
  const outcome = `${reply?.status ?? 'no response'} ${ms} ms ${bytes} B`
  return `${now()} ${requested} ${outcome}${otherMembers(request, redact, textMember)}\n`
}

function jsonMember(name: string, value: string | number | undefined): string {
  if (value === undefined) return ''
  return `,"${name}":${typeof value === 'number' ? value : quoted(value)}`
}

function textMember(name: string, value: string | number | undefined): string {
  return value === undefined ? '' : ` ${name}=${word(String(value))}`
}

function otherMembers(request: RequestOutcome, redact: Redact, show: typeof textMember): string {
  const { headers } = request.head ?? {}
  const { code, cause } = request.reply ?? {}
  const requestId = headers && readRequestId(headers)
  const forwardedFor = headers?.['x-forwarded-for']?.toString()
  return (
    show('operation', request.route?.operation) +
    show('code', code && redact(code)) +
    show('cause', cause === undefined ? undefined : redact(messageOf(cause))) +
    show('key', request.key) +
    show('requestId', requestId && redact(requestId)) +
    show('traceId', requestId === undefined && headers ? readTraceId(headers) : undefined) +
    show('remote', request.remote) +
    show('forwardedFor', forwardedFor && redact(forwardedFor))
  )
}

function jsonEvent(level: LogLevel, message: string, members?: Members): string {
  const line = JSON.stringify({ time: now(), level, message, ...members })
  return `${line.replace(TO_ESCAPE, escaped)}\n`
}

/** The lines of a message are indented after the first, so that none looks like another event. */
function textEvent(level: LogLevel, message: string): string {
  const lines = message.replace(TO_ESCAPE, escaped).replaceAll('\n', '\n    ')
  return `${now()} ${level}: ${lines}\n`
}

/** Path and query, with `*` for each value in the query, and for each part without a `=`. */
function targetOf({ target }: RequestHead, redact: Redact): string {
  const { path, query } = readTarget(target)
  if (query === '') return redact(path)
  return `${redact(path)}?${redact(query).replace(/([^&=]*=)[^&]*|[^&]+/g, '$1*')}`
}

const NEEDS_NO_ESCAPE = /^[ !#-[\]-~]*$/ // printable ASCII, but no " or \
const WORD = /^[!#-[\]-~]+$/ // the same, but no space
const TO_ESCAPE = /[\0-\t\v-\x1f\u007f-\uffff]/g // all but \n and printable ASCII

/** A JSON string in ASCII, because terminals act on some other characters. */
function quoted(text: string): string {
  return NEEDS_NO_ESCAPE.test(text) ? `"${text}"` : JSON.stringify(text).replace(TO_ESCAPE, escaped)
}

/** A text in quotes unless it is a single word, so that a space in it cannot start a member. */
function word(text: string): string {
  return WORD.test(text) ? text : quoted(text)
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

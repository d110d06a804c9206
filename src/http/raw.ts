import { http } from '../builtins.ts'
import { EVERY_ANSWER, JSON_TYPE, type Reply } from './reply.ts'
import { timeWriter } from './time.ts'

/** Field lines and the empty one behind them: those that all answers of this second have. */
const ending = timeWriter(1_000, (time) => `${textOf([...EVERY_ANSWER, 'Date', time.toUTCString()])}\r\n`)

/**
 * An answer as its bytes go over the wire (RFC 9112 §4), each of them a character. Nothing checks its field lines here: none may
 * hold what a client sent, unless it was found to be visible ASCII.
 *
 * @param lines Field lines beside its own and those of every answer, as text; `Connection` among them.
 * @param time For its Date, in milliseconds since 1970.
 */
export function rawAnswer(reply: Reply & { body: string }, length: number, lines: string, time: number): string {
  const { status, body, type = JSON_TYPE, fields = [] } = reply
  const content = body.length === length ? body : Buffer.from(body).toString('latin1')
  const start = `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? 'unknown'}\r\nContent-Type: ${type}\r\nContent-Length: `
  return `${start}${length}\r\n${textOf(fields)}${lines}${ending(time)}${content}`
}

/** Field lines as they are sent. */
export function textOf(lines: readonly string[]): string {
  let text = ''
  for (let at = 0; at < lines.length; at += 2) text += `${lines[at]}: ${lines[at + 1]}\r\n`
  return text
}

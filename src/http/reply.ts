/** A response before it meets a socket: what an operation returns. */
export interface Reply {
  readonly status: number
  readonly headers?: readonly string[] // beyond those of every response: name, value, name, value …
  readonly body?: string // absent if the response has no content (204)
  readonly type?: string // of the body; JSON by default
  readonly contentLength?: number // what is said of a body that is cut short; the connection ends behind it
}

export type Awaitable<T> = T | Promise<T>

/** What HTTP itself can find wrong with a request. */
// prettier-ignore
export type Problem =
  | 'badSyntax' | 'badVersion' | 'badHost' | 'badCredentials' | 'badFraming' | 'badTransferCoding' | 'badTarget'
  | 'badExpectation' | 'requestTimeout' | 'headersTooLarge' | 'chunkExtensionsTooLarge' | 'bodyTooLarge' | 'badMediaType'
  | 'badContentCoding' | 'noCredentials' | 'invalidToken' | 'notFound' | 'methodNotAllowed' | 'internalError'

/** How a service replies to a problem; the detail completes its message: a reason, a limit, or the value of `Allow`. */
export type Refuse = (problem: Problem, detail?: string) => Reply

export const JSON_TYPE = 'application/json'
export const COMMON: readonly string[] = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']

/** All headers of a reply; a 204 has neither type nor length. */
export function headersOf({ body, type = JSON_TYPE, headers = [] }: Reply, contentLength: number): string[] {
  const content = body === undefined ? [] : ['Content-Type', type, 'Content-Length', String(contentLength)]
  return [...content, ...headers, ...COMMON]
}

export function contentLengthOf({ body = '', contentLength = Buffer.byteLength(body) }: Reply): number {
  return contentLength
}

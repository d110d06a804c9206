/** Milliseconds, or a range of them. */
export type Delay = number | readonly [min: number, max: number]

/** Which requests to wait for, and for how long. */
export interface WaitOptions {
  /** Any by default. */
  operation?: RecordedOperation | undefined
  /** Status of the response, null if there was none; any by default. */
  status?: number | null | undefined
  /** Only getPet of this pet. */
  petId?: number | undefined
  /** The `key` of a recorded request, null if it had no valid one; any by default. */
  key?: number | null | undefined
  /** Whether to count a request: it gets a copy of each that passes the filters. */
  matching?: ((request: RecordedRequest) => boolean) | undefined
  /** Milliseconds; 4,000 by default. */
  timeout?: number | undefined
}

/** The contract's operations. */
export type OperationId = 'listPets' | 'createPet' | 'getPet'

/** Also the operation that the contract only mentions, and outside the base path two documents. */
export type RecordedOperation = OperationId | 'listOrders' | 'page' | 'openapi'

/** Which requests a fault applies to, and what all faults can do. */
interface AnyFault {
  /** The operation that fails; `*` for any. The contract only mentions `listOrders`. */
  operation: OperationId | 'listOrders' | '*'
  /** Only for this pet; with the operation getPet. */
  petId?: number | undefined
  /** How many requests pass it before the first one fails; 0 by default. */
  after?: number | undefined
  /** How many requests fail before the fault is gone; 1 by default, `always` with `rate`. */
  times?: number | 'always' | undefined
  /** The share of requests that fail, above 0 up to 1; the same ones in each run. Default 1. */
  rate?: number | undefined
  /** Seed of what `rate` and a range of delays choose; 0 by default. */
  seed?: number | undefined
  /** Time before the response; with the body `slow`, the time that the body takes. */
  delay?: Delay | undefined
  /** Whether the operation is carried out before its response is delayed, lost, cut or replaced. */
  done?: boolean | undefined
}

/**
 * What becomes of a body. `cut` breaks the response off halfway. `garbled` is not JSON. `slow`
 * sends the head at once, and the body in pieces over `delay`. `stalled` sends half of it, and no
 * more until the client leaves.
 */
export type BodyEffect = 'cut' | 'garbled' | 'slow' | 'stalled'

/** Replaces the response by an Error. */
export interface ErrorFault extends AnyFault {
  /** HTTP status of the response, 400 to 599; its body is the contract's Error. */
  status: number
  /** The code in that body; `injected_fault` by default. */
  code?: string | undefined
  /** The message in that body, or the garbled body. */
  message?: string | undefined
  /** Headers in addition to those of every response. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Seconds in `Retry-After` (RFC 9110 §10.2.3). */
  retryAfter?: number | undefined
  /** What becomes of that body. */
  body?: BodyEffect | undefined
  hangUp?: false | undefined
}

/** The members that only an `ErrorFault` has. */
interface NoError {
  status?: undefined
  code?: undefined
  message?: undefined
  headers?: undefined
  retryAfter?: undefined
}

/** Spoils the body of the response. */
export interface BodyFault extends AnyFault, NoError {
  body: BodyEffect
  hangUp?: false | undefined
}

/** Ends the connection before any response. */
export interface HangUpFault extends AnyFault, NoError {
  /** `reset` resets the connection (RST), which clients report otherwise than its end. */
  hangUp: true | 'reset'
  body?: undefined
}

/** Only delays the response. */
export interface DelayFault extends AnyFault, NoError {
  delay: Delay
  body?: undefined
  hangUp?: false | undefined
}

/** Makes requests that would have reached an operation fail, or delays them. */
export type Fault = ErrorFault | BodyFault | HangUpFault | DelayFault

/** A fault still to come, and how many requests it has applied to. */
export type PendingFault = Fault & { hits: number }

/** What `inject` returns. */
export interface InjectedFault {
  /** How many requests the fault has applied to. */
  readonly hits: number
  /** Drops the fault, if it is still to come. */
  remove(): void
}

/** A request as it came, and its outcome. Valid keys are redacted. */
export interface RecordedRequest {
  /** Null if method and path name no operation, or if the request is malformed HTTP. */
  operation: RecordedOperation | null
  /** As it was sent: methods are case-sensitive. */
  method: string
  /** As it was sent, with its percent-escapes. */
  path: string
  /** As it was sent, without the question mark. */
  query: string
  /** The index of its valid key, or its store's if all are valid; null if it has or needs none. */
  key: number | null
  /** By lower-case names. `authorization` is redacted even if it is invalid. */
  headers: Record<string, string>
  /** The body as text, at most its first 1 MiB; empty if there was none or nothing read it. */
  body: string
  /** The status of the response; null if the connection ended before one. */
  status: number | null
  /** The code of the Error in the response; null without one. */
  code: string | null
  /** The message of that Error; null without one. */
  message: string | null
  /** Whether a fault applied to it. */
  fault: boolean
  /** Milliseconds from the head of the request to its response. */
  duration: number
  /** Unknown or repeated parameters and members, such as `unknown parameter "statsu"`. */
  violations: string[]
}

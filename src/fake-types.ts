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
  /** Milliseconds; 4,000 by default. */
  timeout?: number | undefined
}

/** The contract's operationIds, and `listOrders` for the operation that it only mentions. */
export type OperationId = 'listPets' | 'createPet' | 'getPet' | 'listOrders'

/** An operation, or outside the base path the page and the OpenAPI document. */
export type RecordedOperation = OperationId | 'page' | 'openapi'

/** The members of a fault; `Fault` says which go together. */
interface FaultMembers {
  /** The operation that fails; `*` for any. */
  operation: OperationId | '*'
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
  /** HTTP status of the response, 400 to 599; its body is the contract's Error. */
  status?: number | undefined
  /** The code in that body; with a status. `injected_fault` by default. */
  code?: string | undefined
  /** The message in that body, or the garbled body; with a status. */
  message?: string | undefined
  /** Headers in addition to those of every response; with a status. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Seconds in `Retry-After` (RFC 9110 §10.2.3); with a status. */
  retryAfter?: number | undefined
  /** Time before the response. */
  delay?: Delay | undefined
  /** Destroys the connection before any response. */
  hangUp?: boolean | undefined
  /** `cut` breaks the response off halfway; `garbled` is not JSON. */
  body?: 'cut' | 'garbled' | undefined
  /** Whether the operation is carried out before its response is delayed, lost, cut or replaced. */
  done?: boolean | undefined
}

/** Makes requests that would have reached an operation fail, or delays them. */
export type Fault = FaultMembers &
  // Only getPet has a pet.
  ({ operation: 'getPet' } | { petId?: undefined }) &
  // An Error body has a status.
  (
    | { status: number }
    | { code?: undefined; message?: undefined; headers?: undefined; retryAfter?: undefined }
  ) &
  // A hang-up has no response.
  ({ status?: undefined; body?: undefined } | { hangUp?: false | undefined }) &
  // At least one effect.
  ({ status: number } | { delay: Delay } | { hangUp: true } | { body: 'cut' | 'garbled' })

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
  /** Milliseconds from the head of the request to its response. */
  duration: number
  /** Unknown or repeated parameters and members, such as `unknown parameter "statsu"`. */
  violations: string[]
}

import { hasMembers } from '../guards.ts'
import { MAX_ID } from '../pets/pet.ts'
import { BOOLEAN, check, checkMembers, DELAY, integer, isNumber, isString } from '../rules.ts'
import { misuse, oneOf, orElse, rule, show } from '../rules.ts'
import type { ErrorFault, Fault } from '../types.ts'
import { MENTIONED, OPERATIONS } from './violations.ts'

const ANY_TEXT = rule('a string', isString)
const HEADER_NAME = /^[\w!#$%&'*+.^`|~-]+$/
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
// The server sends these itself.
const RESERVED_HEADER =
  /^(?:access-control-.*|cache-control|content-(?:length|type)|date|x-(?:content-.*|request-id))$/i
// HTTP uses these for the connection.
const HOP_BY_HOP = /^(?:(?:proxy-)?connection|keep-alive|te|trailer|transfer-encoding|upgrade)$/i

const HEADERS = rule(
  'an object of strings',
  // Not iterable: a Headers or a Map has no members of its own.
  (value): value is Record<string, unknown> => hasMembers(value) && !(Symbol.iterator in value),
)
const HEADER = rule('a string of Latin-1 on one line', isString, (text) => HEADER_VALUE.test(text))

const FAULT_RULES = {
  operation: oneOf([...OPERATIONS, '*'], MENTIONED),
  petId: integer(1, MAX_ID),
  after: integer(0, 1_000_000),
  times: orElse(integer(1, 1_000_000), 'always'),
  rate: rule('a number above 0, and at most 1', isNumber, (rate) => 0 < rate && rate <= 1),
  seed: integer(0, 2 ** 32 - 1),
  status: integer(400, 599),
  code: ANY_TEXT,
  message: ANY_TEXT,
  headers: HEADERS,
  retryAfter: integer(0, 86_400),
  delay: DELAY,
  hangUp: orElse(BOOLEAN, 'reset'),
  body: oneOf(['cut', 'garbled', 'slow', 'stalled']),
  done: BOOLEAN,
} satisfies Record<keyof ErrorFault, unknown>

/** Checks what the type says, too: faults also come from JavaScript and over HTTP. */
export function checkFault(input: unknown): asserts input is Fault {
  checkMembers('fault', input, FAULT_RULES)
  const fault: Partial<Record<keyof ErrorFault, unknown>> = input
  const { operation, status, delay, hangUp, body } = fault
  const hasResponse = status !== undefined || body !== undefined
  const ofError = [fault.code, fault.message, fault.headers, fault.retryAfter]
  check('operation', operation, FAULT_RULES.operation) // the only required member
  if (fault.petId !== undefined && operation !== 'getPet')
    throw misuse('petId must go with the operation getPet')
  if (!hasResponse && delay === undefined && !hangUp)
    throw misuse('fault must have a status, a delay, hangUp or a body')
  if (hasResponse && hangUp) throw misuse('hangUp must be without status and body')
  if (body === 'slow' && delay === undefined)
    throw misuse('delay must go with the body slow: it comes over that time')
  if (status === undefined && ofError.some((member) => member !== undefined))
    throw misuse('code, message, headers and retryAfter must be with a status')
  for (const [name, value] of Object.entries(fault.headers ?? {})) {
    if (!HEADER_NAME.test(name) || RESERVED_HEADER.test(name) || HOP_BY_HOP.test(name))
      throw misuse(`headers must not have ${show(name)}: invalid or reserved`)
    check(`header ${name}`, value, HEADER)
    if (/^retry-after$/i.test(name) && fault.retryAfter !== undefined)
      throw misuse('retryAfter must be without Retry-After among the headers')
  }
}

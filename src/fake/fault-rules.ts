import { validateHeaderName, validateHeaderValue } from 'node:http'
import { messageOf } from '../errors.ts'
import { BOOLEAN, check, checkMembers, integer, isRecord, misuse } from '../rules.ts'
import { oneOf, orElse, type Rules, shape, STRING } from '../rules.ts'
import type { Fault, OperationId } from '../types.ts'

export const OPERATIONS: readonly OperationId[] = ['listPets', 'createPet', 'getPet']

const RULES: Rules<keyof Fault> = {
  operation: oneOf(...OPERATIONS, '*'),
  after: integer(0, 1_000_000),
  times: orElse(integer(1, 1_000_000), 'always'),
  delay: integer(0, 600_000, ' ms'),
  status: integer(200, 599),
  code: STRING,
  message: STRING,
  body: STRING,
  // Not iterable: a Headers or a Map has no members of its own.
  headers: shape('an object of strings', (value) => isRecord(value) && !(Symbol.iterator in value)),
  hangUp: {
    mustBe: 'true or false, or one of reset, halfway, stalled',
    isType: (value) => typeof value === 'boolean' || typeof value === 'string',
    isInRange: (value) => [true, false, 'reset', 'halfway', 'stalled'].some((one) => one === value),
  },
  done: BOOLEAN,
}

// What frames the message (RFC 9110 §7.6.1, RFC 9112 §6), and what every response has.
const FRAMING =
  /^(?:(?:proxy-)?connection|content-length|keep-alive|te|trailer|transfer-encoding|upgrade)$/i
const COMMON =
  /^(?:access-control-.*|cache-control|date|vary|x-content-type-options|x-request-id)$/i

/** Checks what the type says, too: faults also come from JavaScript and over HTTP. */
export function readFault(input: unknown): Fault {
  const members = checkMembers('fault', input, RULES)
  check('operation', members['operation'], RULES.operation) // the only required member
  const fault = copyOf(members as unknown as Fault) // as the rules say
  const { status, delay, hangUp = false, headers = {} } = fault
  if (status === undefined && delay === undefined && !hangUp) {
    throw misuse('a fault must have a delay, a status or hangUp')
  }
  if (status === undefined) {
    const members = ['code', 'message', 'body', 'headers'] as const
    const other = members.find((name) => fault[name] !== undefined)
    if (other) throw misuse(`${other} must go with a status`)
  } else if (hangUp === true || hangUp === 'reset') {
    throw misuse(`hangUp ${hangUp} must go without a status: there is no response`)
  }
  for (const [name, value] of Object.entries(headers)) checkHeader(name, value)
  return fault
}

function checkHeader(name: string, value: unknown): void {
  if (FRAMING.test(name) || COMMON.test(name)) {
    throw misuse(`headers must not have ${name}: the server sends it`)
  }
  check(`header ${name}`, value, STRING)
  try {
    validateHeaderName(name)
    validateHeaderValue(name, String(value))
  } catch (error) {
    throw misuse(`headers must be those of HTTP: ${messageOf(error)}`)
  }
}

export function copyOf({ headers, ...members }: Fault): Fault {
  return headers ? { ...members, headers: { ...headers } } : members
}

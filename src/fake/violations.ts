import { URLSearchParams } from 'node:url'
import { refuse } from '../api/errors.ts'
import type { Route } from '../http/router.ts'
import type { RecordedOperation } from '../types.ts'

/** Those that messages list. */
export const OPERATIONS: readonly RecordedOperation[] = ['listPets', 'createPet', 'getPet']
/** What the contract only mentions: it can be named, and no message lists it. */
export const MENTIONED: readonly RecordedOperation[] = ['listOrders']
const LIST_PARAMETERS = ['limit', 'after', 'status'] // no other operation has any
const KNOWN_MEMBERS = ['name', 'categoryId', 'status']
const SHOWN_NAME = 100 // characters
const NAME_OR_STRING_OR_BRACKET = /("[^"]*")\s*:|"[^"]*"|[[\]{}]/g

type Redact = (text: string) => string

/** Unknown and repeated parameters of an operation, in words. */
export function parameterViolations(operation: string, query: string, redact: Redact): string[] {
  const known = operation === 'listPets' ? LIST_PARAMETERS : []
  const isKnown = [...OPERATIONS, ...MENTIONED].some((name) => name === operation)
  const names = isKnown ? [...new URLSearchParams(`?${query}`).keys()] : []
  return violationsIn('parameter', names, known, redact)
}

/** Unknown and repeated members of a NewPet, in words. */
export function memberViolations(body: Buffer, redact: Redact): string[] {
  return violationsIn('member', membersOf(body.toString()), KNOWN_MEMBERS, redact)
}

function violationsIn(
  what: string,
  names: readonly string[],
  known: readonly string[],
  redact: Redact,
): string[] {
  const violations: string[] = []
  for (const name of new Set(names)) {
    // Only then cut: a part of a key would not be redacted.
    const shown = `${what} ${JSON.stringify(redact(name).slice(0, SHOWN_NAME))}`
    if (!known.includes(name)) violations.push(`unknown ${shown}`)
    else if (names.indexOf(name) < names.lastIndexOf(name)) violations.push(`repeated ${shown}`)
  }
  return violations
}

/** The names of the members of a JSON object. JSON.parse would drop repeated ones. */
function membersOf(json: string): string[] {
  if (json === '' || !isJson(json)) return [] // most have no body; errors are slow
  const names: string[] = []
  const withoutEscapes = json.replace(/\\./g, '__') // same length, but no quote within a string
  let depth = 0
  for (const { 0: token, 1: name, index } of withoutEscapes.matchAll(NAME_OR_STRING_OR_BRACKET)) {
    if ('{['.includes(token)) depth++
    else if ('}]'.includes(token)) depth--
    else if (name && depth === 1) names.push(unquoted(json.slice(index, index + name.length)))
  }
  return names
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function unquoted(name: string): string {
  return name.includes('\\') ? String(JSON.parse(name)) : name.slice(1, -1)
}

/** Makes operations refuse a request with a violation. */
export function makeStrict(routes: readonly Route[], redact: Redact): void {
  for (const route of routes) {
    const { operation, handle } = route
    route.handle = (call) => {
      const inQuery = parameterViolations(operation, call.query, redact).join('; ')
      if (inQuery !== '') return refuse('badQuery', inQuery)
      const inBody = memberViolations(call.body, redact).join('; ')
      return inBody === '' ? handle(call) : refuse('badPet', inBody)
    }
  }
}

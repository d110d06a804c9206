import { refuse } from '../api/errors.ts'
import type { Route } from '../http/router.ts'
import { parseJson } from '../pets/json.ts'
import type { OperationId } from '../types.ts'

export const OPERATIONS: readonly OperationId[] = ['listPets', 'createPet', 'getPet', 'listOrders']
const LIST_PARAMETERS = ['limit', 'after', 'status'] // no other operation has any
const KNOWN_MEMBERS = ['name', 'categoryId', 'status']
const NAME_OR_STRING_OR_BRACKET = /("[^"]*")\s*:|"[^"]*"|[[\]{}]/g

type Violations = Readonly<Record<'parameters' | 'members', readonly string[]>>

/** Unknown and repeated parameters of an operation, and members of a NewPet, in words. */
export function violationsOf(operation: string, query: string, body: Buffer): Violations {
  const known = operation === 'listPets' ? LIST_PARAMETERS : []
  const isKnown = OPERATIONS.some((name) => name === operation)
  const names = isKnown ? [...new URLSearchParams(`?${query}`).keys()] : []
  return {
    parameters: violationsIn('parameter', names, known),
    members: violationsIn('member', membersOf(body.toString()), KNOWN_MEMBERS),
  }
}

function violationsIn(what: string, names: readonly string[], known: readonly string[]): string[] {
  const violations: string[] = []
  for (const name of new Set(names)) {
    const shown = `${what} ${JSON.stringify(name)}`
    if (!known.includes(name)) violations.push(`unknown ${shown}`)
    else if (names.indexOf(name) < names.lastIndexOf(name)) violations.push(`repeated ${shown}`)
  }
  return violations
}

/** The names of the members of a JSON object. JSON.parse would drop repeated ones. */
function membersOf(json: string): string[] {
  if (json === '' || !parseJson(json).ok) return [] // '' spares the parser's slow error
  const names: string[] = []
  const withoutEscapes = json.replace(/\\./g, '__') // as long, and each quote ends a string
  let depth = 0
  for (const { 0: token, 1: name, index } of withoutEscapes.matchAll(NAME_OR_STRING_OR_BRACKET)) {
    if ('{['.includes(token)) depth++
    else if ('}]'.includes(token)) depth--
    else if (name !== undefined && depth === 1)
      names.push(String(JSON.parse(json.slice(index, index + name.length))))
  }
  return names
}

/** Makes operations refuse a request with a violation. */
export function makeStrict(routes: readonly Route[], redact: (text: string) => string): void {
  for (const route of routes) {
    const { operation, handle } = route
    route.handle = (call) => {
      const { parameters, members } = violationsOf(operation, call.query, call.body)
      if (parameters.length > 0) return refuse('badQuery', redact(parameters.join('; ')))
      if (members.length > 0) return refuse('badPet', redact(members.join('; ')))
      return handle(call)
    }
  }
}

import { refuse } from '../api/errors.ts'
import type { Route } from '../http/router.ts'
import { parseJson } from '../pets/json.ts'

const PARAMETERS = new Map([
  ['listPets', ['limit', 'after', 'status']],
  ['createPet', []],
  ['getPet', []],
  ['listOrders', []],
])
const MEMBERS = ['name', 'categoryId', 'status']
const ESCAPE_OR_MARK = /\\.|["[\]{}:]/g // a long string as one token would overflow the stack

/** Unknown and repeated parameters, in words; none at a path that is no operation. */
export function parameterViolations(operation: string, query: string): string[] {
  const known = PARAMETERS.get(operation)
  if (known === undefined) return []
  return violationsIn('parameter', [...new URLSearchParams(`?${query}`).keys()], known)
}

/** Unknown and repeated members of a NewPet, in words. */
export function memberViolations(body: Buffer): string[] {
  if (body.length === 0) return []
  return violationsIn('member', membersOf(body.toString()), MEMBERS)
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
  if (!parseJson(json).ok) return []
  const names: string[] = []
  let depth = 0
  let isInString = false
  let start = 0 // of the latest string
  let latest = ''
  for (const { 0: token, index } of json.matchAll(ESCAPE_OR_MARK)) {
    if (token === '"') {
      isInString = !isInString
      if (isInString) start = index
      else latest = json.slice(start, index + 1)
    } else if (isInString) continue
    else if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (depth === 1) names.push(String(JSON.parse(latest)))
  }
  return names
}

/** Makes operations refuse a request with a violation. */
export function makeStrict(routes: readonly Route[]): void {
  for (const route of routes) {
    const { operation, handle } = route
    route.handle = (call) => {
      const parameters = parameterViolations(operation, call.query)
      if (parameters.length > 0) return refuse('badQuery', parameters.join('; '))
      const members = memberViolations(call.body)
      if (members.length > 0) return refuse('badPet', members.join('; '))
      return handle(call)
    }
  }
}

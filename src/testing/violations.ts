import { refuse } from '../api/errors.ts'
import type { Call, Route } from '../http/router.ts'
import { parseJson } from '../pets/json.ts'

const PARAMETERS = new Map<string | undefined, readonly string[]>([
  ['listPets', ['limit', 'after', 'status']],
  ['createPet', []],
  ['getPet', []],
  ['listOrders', []],
])
const MEMBERS = ['name', 'categoryId', 'status']
const STRING_OR_MARK = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}:]/g

/** What the contract does not know and the service ignores, in words. */
interface Violations {
  readonly parameters: readonly string[]
  readonly members: readonly string[]
}

export function violationsOf(
  operation: string | undefined,
  query: string,
  body: Uint8Array = Buffer.alloc(0),
): Violations {
  const known = PARAMETERS.get(operation)
  if (known === undefined) return { parameters: [], members: [] }
  const parameters = [...new URLSearchParams(`?${query}`).keys()]
  const members = membersOf(Buffer.from(body).toString())
  return {
    parameters: describe('parameter', parameters, known),
    members: describe('member', members, MEMBERS),
  }
}

function describe(what: string, names: readonly string[], known: readonly string[]): string[] {
  const violations: string[] = []
  for (const name of new Set(names)) {
    const shown = `${what} ${JSON.stringify(name)}`
    if (!known.includes(name)) violations.push(`unknown ${shown}`)
    else if (names.indexOf(name) < names.lastIndexOf(name)) violations.push(`repeated ${shown}`)
  }
  return violations
}

/** The names of the members of a JSON object, repeated ones too, which JSON.parse drops. */
function membersOf(json: string): string[] {
  if (!parseJson(json).ok) return []
  const names: string[] = []
  let depth = 0
  let before = ''
  for (const [token] of json.matchAll(STRING_OR_MARK)) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (token === ':' && depth === 1) names.push(String(JSON.parse(before)))
    before = token
  }
  return names
}

/** Makes operations refuse a request with a violation. */
export function makeStrict(routes: readonly Route[]): void {
  for (const route of routes.filter(({ operation }) => PARAMETERS.has(operation))) {
    const { operation, handle } = route
    route.handle = (call: Call) => {
      const { parameters, members } = violationsOf(operation, call.query, call.body)
      if (parameters.length > 0) return refuse('badQuery', parameters.join('; '))
      if (members.length > 0) return refuse('badPet', members.join('; '))
      return handle(call)
    }
  }
}

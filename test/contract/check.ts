// What a line of a transcript demands of a response.
import { isDeepStrictEqual } from 'node:util'
import { parseJson } from '../../src/pets/json.ts'
import { isPetStatus, toInt64 } from '../../src/pets/pet.ts'
import { isRecord } from '../../src/rules.ts'
import { NotPossible, type Response } from './client.ts'

/** What the response should have been. */
export class Failure extends Error {}

function should(be: string, isSo: boolean): void {
  if (!isSo) throw new Failure(be)
}

/** @param values Gets what later lines can refer to. */
export function checkLine(
  response: Response,
  line: string,
  values: Map<string, string | undefined>,
): void {
  const { head, body } = response
  // The JSON without the spaces between its tokens.
  const compact = body.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
  const part = line.slice(1)
  const [, header = '', value] = /^([\w-]+):(?: (.*))?$/.exec(line) ?? []
  if (/^\d/.test(line)) checkStatus(response, line, values)
  else if (/^[[{]/.test(line)) should(line, isDeepStrictEqual(jsonOf(body), jsonOf(line)))
  else if (line.startsWith('…')) should(`with ${part}`, compact.includes(part))
  else if (line.startsWith('!')) should(`without ${part}`, !`${head}${body}`.includes(part))
  else checkHeader(response, header, value)
}

/** The values of a header, joined by commas. */
function headerOf({ head }: Response, name: string): string | undefined {
  const start = `${name.toLowerCase()}:`
  const lines = head.split('\r\n').filter((line) => line.toLowerCase().startsWith(start))
  const values = lines.map((line) => line.slice(start.length).trim())
  return values.length > 0 ? values.join(', ') : undefined
}

/** Compares with a value, or a pattern between slashes; undefined if it must not be there. */
function checkHeader(response: Response, name: string, value: string | undefined): void {
  const header = headerOf(response, name)
  const pattern = value?.startsWith('/^') ? new RegExp(value.slice(1, -1)) : undefined
  const isSo = pattern === undefined ? header === value : pattern.test(header ?? '')
  should(value === undefined ? `without ${name}` : `with ${name}: ${value}`, isSo)
}

function checkStatus(
  response: Response,
  line: string,
  values: Map<string, string | undefined>,
): void {
  const [expected = '', what = '', ...details] = line.split(' ')
  const { status, body } = response
  should(expected, new RegExp(`^${expected.replace('xx', '..')}$`).test(`${status}`))
  values.set('length', headerOf(response, 'Content-Length'))
  const hasJson = what === 'Animal' || what === 'Animals' || (status >= 400 && what !== 'any')
  if (hasJson) checkHeader(response, 'Content-Type', '/^application/json *(?:;|$)/')
  if (what === 'Animal') checkAnimal(body, values)
  else if (what === 'Animals') checkAnimals(body, details, values)
  else if (hasJson) checkError(jsonOf(body), status, what)
}

function checkError(error: unknown, status: number, expected: string): void {
  if (!isRecord(error)) throw new Failure('an Error')
  const { code, message, ...more } = error
  should('an Error with a code', typeof code === 'string')
  should('an Error with a message', typeof message === 'string')
  should(`an Error with the status ${status}`, more['status'] === status)
  if (expected === '') return
  should(`the code ${expected}`, code === expected)
  should('nothing but code, message and status', Object.keys(more).length === 1)
}

function checkAnimal(body: string, values: Map<string, string | undefined>): void {
  const animal = jsonOf(body)
  if (!isAnimal(animal)) throw new Failure('an Animal')
  values.set('id', `${animal['id']}`)
  values.set('animal', body)
}

function checkAnimals(
  body: string,
  details: readonly string[],
  values: Map<string, string | undefined>,
): void {
  const animals = jsonOf(body)
  if (!Array.isArray(animals) || !animals.every(isAnimal)) throw new Failure('an array of Animals')
  const ids = animals.map(({ id }) => BigInt(`${id}`))
  should('Animals that each have their own id', new Set(ids).size === ids.length)
  for (const detail of details) {
    const count = Number(detail.slice(1))
    if (detail === 'ascending') {
      const isAscending = ids.every((id, at) => at === 0 || id > (ids[at - 1] ?? id))
      should('in ascending order of id', isAscending)
    } else if (detail.startsWith('≤')) should(`at most ${count} Animals`, ids.length <= count)
    else if (detail.startsWith('=')) should(`${count} Animals`, ids.length === count)
    else if (detail.startsWith('≥') && ids.length < count) {
      throw new NotPossible(`needs ${count} animals, but sees ${ids.length}`)
    } else if (isPetStatus(detail)) {
      const isEach = animals.every(({ status }) => status === detail)
      should(`only Animals that are ${detail}`, isEach)
    }
  }
  setAnimals(animals, body, values)
}

function setAnimals(
  animals: readonly Record<string, unknown>[],
  body: string,
  values: Map<string, string | undefined>,
): void {
  const listed = (some: readonly unknown[]): string => textOf(some)
  values.set('animals', body)
  values.set('rest', listed(animals.slice(1)))
  for (const [hole, at] of Object.entries({ first: 0, last: -1 })) {
    const animal = animals.at(at)
    values.set(hole, animal && textOf(animal))
    values.set(`${hole}.id`, animal && `${animal['id']}`)
  }
  for (const status of ['available', 'pending', 'sold']) {
    const matching = animals.filter((animal) => animal['status'] === status)
    // Of 100 or more animals, not all are known.
    values.set(status, animals.length < 100 ? listed(matching) : undefined)
  }
}

function isAnimal(value: unknown): value is Record<string, unknown> {
  if (!isRecord(value)) return false
  const { id, name, categoryId, status } = value
  const hasStatus = status === undefined || isPetStatus(status)
  const hasIds = toInt64(id) !== undefined && toInt64(categoryId) !== undefined
  return hasIds && typeof name === 'string' && hasStatus
}

function jsonOf(text: string): unknown {
  const parsed = parseJson(text)
  if (parsed.ok) return parsed.value
  throw new Failure(`JSON: ${parsed.reason}`)
}

/** JSON with exact integers. */
function textOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(textOf).join(',')}]`
  if (!isRecord(value)) return typeof value === 'bigint' ? `${value}` : JSON.stringify(value)
  const members = Object.entries(value).map(
    ([name, one]) => `${JSON.stringify(name)}:${textOf(one)}`,
  )
  return `{${members.join(',')}}`
}

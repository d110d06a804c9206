import { codedError } from '../errors.ts'
import { isRecord } from '../rules.ts'
import { failure, type Parsed, parseJson } from './json.ts'
import type { InitialPet, Int64, NewPet, Pet, PetStatus } from './store.ts'

export const PET_STATUSES: readonly PetStatus[] = ['available', 'pending', 'sold']
const MEMBERS = ['name', 'categoryId', 'status']
const RANGE = ' from -2^63 to 2^63-1'
const EXACTLY = ', beyond ±(2^53-1) a bigint, or plain digits in JSON'

export function isPetStatus(value: unknown): value is PetStatus {
  return PET_STATUSES.some((status) => status === value)
}

/** The value as an Int64, a bigint only where a number would not do; undefined if it is none. */
export function toInt64(value: unknown): Int64 | undefined {
  if (Number.isSafeInteger(value)) return Number(value)
  if (typeof value !== 'bigint' || BigInt.asIntN(64, value) !== value) return undefined
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Decimal digits as an Int64; undefined if they are more than 2^63-1. */
export function int64FromDigits(digits: string): Int64 | undefined {
  return toInt64(digits.length < 16 ? Number(digits) : BigInt(digits))
}

/** The id after another one; undefined after 2^63-1. */
export function nextId(id: Int64): Int64 | undefined {
  return toInt64(id < Number.MAX_SAFE_INTEGER ? Number(id) + 1 : BigInt(id) + 1n)
}

/** Validates a NewPet; unknown members are dropped. The reason names every wrong member. */
export function validateNewPet(input: unknown): Parsed<NewPet> {
  if (!isRecord(input)) return failure('a pet must be an object')
  const { name, status } = input
  const categoryId = toInt64(input['categoryId'])
  const hasName = typeof name === 'string'
  const hasStatus = status === undefined || isPetStatus(status)
  if (hasName && categoryId !== undefined && hasStatus) {
    return { ok: true, value: status ? { name, categoryId, status } : { name, categoryId } }
  }
  const issues: string[] = []
  if (!hasName) issues.push(`name ${must(name)} be a string`)
  if (categoryId === undefined) issues.push(categoryIssue(input['categoryId']))
  if (!hasStatus) issues.push(`status must be one of ${PET_STATUSES.join(', ')}, or left out`)
  return failure(issues.join('; '))
}

function must(value: unknown): string {
  return value === undefined ? 'is required and must' : 'must'
}

function categoryIssue(value: unknown): string {
  const range = isLarge(value) ? RANGE + EXACTLY : ''
  return `categoryId ${must(value)} be an integer${range}`
}

function isLarge(value: unknown): boolean {
  if (typeof value === 'bigint') return true
  return typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER
}

/** The names of the members that no NewPet has. */
export function unknownMembers(input: unknown): string[] {
  return isRecord(input) ? Object.keys(input).filter((name) => !MEMBERS.includes(name)) : []
}

/** Validates pets without ids. The reason names the first wrong one. */
export function validateNewPets(input: unknown): Parsed<NewPet[]> {
  return validateEach(input, withoutId)
}

/** Validates pets that all have ids, in ascending order, or that all have none. */
export function validateInitialPets(input: unknown): Parsed<InitialPet[]> {
  const haveIds = Array.isArray(input) && hasId(input[0])
  return validateEach<InitialPet>(input, haveIds ? withId : withoutId)
}

/** Validates pets as a snapshot has them: each has an id, in ascending order, and nothing more. */
export function validateStoredPets(input: unknown): Parsed<Pet[]> {
  return validateEach(input, (item, last) => {
    const [unknown] = unknownMembers(item).filter((name) => name !== 'id')
    if (unknown === undefined) return withId(item, last)
    return failure(`a pet must not have ${JSON.stringify(unknown)}: a write would drop it`)
  })
}

function validateEach<T extends InitialPet>(
  input: unknown,
  validate: (item: unknown, last: Int64) => Parsed<T>,
): Parsed<T[]> {
  if (!Array.isArray(input)) return failure('it must be an array of pets')
  const pets: T[] = []
  let last: Int64 = 0
  for (const item of input) {
    const pet = validate(item, last)
    if (!pet.ok) return failure(`in item ${pets.length + 1}, ${pet.reason}`)
    pets.push(pet.value)
    last = pet.value.id ?? 0
  }
  return { ok: true, value: pets }
}

function hasId(item: unknown): boolean {
  return isRecord(item) && item['id'] !== undefined
}

function withoutId(input: unknown): Parsed<NewPet> {
  if (hasId(input)) return failure('id must be left out: the store assigns it')
  return validateNewPet(input)
}

function withId(input: unknown, last: Int64): Parsed<Pet> {
  const pet = validateNewPet(input)
  if (!pet.ok) return pet
  const given = isRecord(input) ? input['id'] : undefined
  const id = toInt64(given)
  if (id !== undefined && id > last) return { ok: true, value: { id, ...pet.value } }
  const range = `above ${last}, the id before it, and at most 2^63-1`
  return failure(`id must be an integer ${range}${isLarge(given) ? EXACTLY : ''}`)
}

/** Serializes a pet, members in the order id, name, categoryId, status. */
export function petJson(id: Int64, { name, categoryId, status }: NewPet): string {
  const end = status ? `,"status":"${status}"` : ''
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${end}}`
}

/** Reads what {@link petJson} wrote. */
export function parsePet(json: string): Pet {
  const parsed = parseJson(json)
  const pet = parsed.ok ? withId(parsed.value, 0) : parsed
  if (pet.ok) return pet.value
  throw codedError('outcome_unknown', `a store must return the JSON of a pet: ${pet.reason}`)
}

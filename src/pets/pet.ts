import { isRecord, hasMembers } from '../guards.ts'
import type { InitialPet, Int64, NewPet, Pet, PetStatus } from '../types.ts'
import { failure, type Parsed, parseJson, valueOrThrow } from './json.ts'

export const PET_STATUSES: readonly PetStatus[] = ['available', 'pending', 'sold']
/** The greatest id that is assigned: 15 digits, which every JSON reader takes exactly. */
export const MAX_ID: number = 10 ** 15 - 1
const RANGE = ' from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits'
const ID_GIVEN = failure('id must be left out: the store assigns 1, 2, 3 …')
const ID_MISSING = failure('id is missing: give all pets an id, or none')
const ID_TOO_MANY = failure('id is given, but not in item 1: give all pets an id, or none')

export function isPetStatus(value: unknown): value is PetStatus {
  return PET_STATUSES.some((status) => status === value)
}

function isInt64(value: unknown): value is Int64 {
  if (typeof value === 'bigint') return BigInt.asIntN(64, value) === value
  return Number.isSafeInteger(value)
}

/** Validates a NewPet; unknown members are dropped. The reason names every wrong member. */
export function validateNewPet(input: unknown): Parsed<NewPet> {
  if (!isRecord(input)) return failure('a pet must be an object')
  const { name, categoryId, status } = input
  const hasName = typeof name === 'string'
  const hasCategoryId = isInt64(categoryId)
  const hasStatus = status === undefined || isPetStatus(status)
  if (hasName && hasCategoryId && hasStatus) {
    const value = status ? { name, categoryId, status } : { name, categoryId }
    return { ok: true, value }
  }
  const issues: string[] = []
  if (!hasName) issues.push(`name ${must(name)} be a string`)
  if (!hasCategoryId)
    issues.push(`categoryId ${must(categoryId)} be an integer${rangeFor(categoryId)}`)
  if (!hasStatus) issues.push(`status must be one of ${PET_STATUSES.join(', ')}, or left out`)
  return failure(issues.join('; '))
}

function must(value: unknown): string {
  return value === undefined ? 'is required and must' : 'must'
}

function rangeFor(value: unknown): string {
  const isLarge = typeof value === 'number' && Math.abs(value) > Number.MAX_SAFE_INTEGER
  return isLarge || typeof value === 'bigint' ? RANGE : ''
}

/** Validates an array of NewPet without ids; the reason names the first invalid item. */
export function validateNewPets(input: unknown): Parsed<NewPet[]> {
  return validateEach(input, (item) => (hasId(item) ? ID_GIVEN : validateNewPet(item)))
}

/** Validates an array like {@link validateNewPets}, or one of pets with ascending ids. */
export function validateInitialPets(input: unknown): Parsed<InitialPet[]> {
  const haveIds = Array.isArray(input) && hasId(input[0])
  return validateEach<InitialPet>(input, (item, last) => {
    if (isRecord(item) && hasId(item) !== haveIds) return haveIds ? ID_MISSING : ID_TOO_MANY
    return haveIds ? validatePet(item, (last?.id ?? 0) + 1) : validateNewPet(item)
  })
}

function hasId(item: unknown): boolean {
  return hasMembers(item) && 'id' in item
}

function validateEach<T>(
  input: unknown,
  validate: (item: unknown, last?: T) => Parsed<T>,
): Parsed<T[]> {
  if (!Array.isArray(input)) return failure('it is not an array')
  const pets: T[] = []
  for (const item of input) {
    const pet = validate(item, pets.at(-1))
    if (!pet.ok) return failure(`in item ${pets.length + 1}, ${pet.reason}`)
    pets.push(pet.value)
  }
  return { ok: true, value: pets }
}

/** Serializes a pet, members in the order id, name, categoryId, status. */
export function petJson(id: number, { name, categoryId, status }: NewPet): string {
  const end = status ? `,"status":"${status}"` : ''
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${end}}`
}

export function parsePet(json: string): Pet {
  return petOrThrow(valueOrThrow(parseJson(json)))
}

/** @throws Error that says what is wrong with the pet. */
export function petOrThrow(input: unknown): Pet {
  return valueOrThrow(validatePet(input, 1))
}

function validatePet(input: unknown, minId: number): Parsed<Pet> {
  const pet = validateNewPet(input)
  if (!pet.ok) return pet
  const id = hasMembers(input) ? input['id'] : undefined
  if (typeof id === 'number' && Number.isInteger(id) && id >= minId && id <= MAX_ID) {
    return { ok: true, value: { id, ...pet.value } }
  }
  return failure(`id must be an integer from ${minId} to ${MAX_ID}`)
}

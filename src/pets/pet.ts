import { codedError, messageOf } from '../errors.ts'
import { isRecord } from '../rules.ts'
import type { InitialPet, Int64, NewPet, Pet, PetStatus } from './store.ts'

export const PET_STATUSES: readonly PetStatus[] = ['available', 'pending', 'sold']
const MEMBERS = ['id', 'name', 'categoryId', 'status']
const MAX_INT64 = '9223372036854775807'
const CATEGORY_ID = `an integer from -9223372036854775808 to ${MAX_INT64}`

export function isPetStatus(value: unknown): value is PetStatus {
  return PET_STATUSES.some((status) => status === value)
}

/** The value as an Int64, a bigint only where a number would not do; undefined if it is none. */
function toInt64(value: unknown): Int64 | undefined {
  if (Number.isSafeInteger(value)) return Number(value)
  if (typeof value !== 'bigint' || BigInt.asIntN(64, value) !== value) return undefined
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Decimal digits as an Int64; undefined if they are none, or more than 2^63-1. */
export function int64FromDigits(digits: string): Int64 | undefined {
  if (!/^(?:0|[1-9]\d{0,18})$/.test(digits)) return undefined
  return toInt64(digits.length < 16 ? Number(digits) : BigInt(digits))
}

/** The pets with the ids after another one. Throws `store_full` if these run out. */
export function withIds(pets: readonly NewPet[], lastId: Int64): Pet[] {
  return pets.map((pet, at) => {
    const id = plus(lastId, at + 1)
    if (id === undefined) throw codedError('store_full', 'the greatest id is taken')
    return { id, ...pet }
  })
}

function plus(id: Int64, steps: number): Int64 | undefined {
  const sum = Number(id) + steps
  return Number.isSafeInteger(sum) ? sum : toInt64(BigInt(id) + BigInt(steps))
}

/** The JSON of a pet, a bigint as an integer. */
export function petJson({ id, name, categoryId, status }: Pet): string {
  const end = status === undefined ? '' : `,"status":"${status}"`
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${end}}`
}

// Pets never change, so the JSON of those that were read lately is kept: that takes a quarter off a
// page of 100. `--max-store` does not count it, so it is bounded.
const MAX_KEPT = 10_000
const kept = new Map<Pet, string>()

/** The JSON of a pet that is read, and probably not for the last time. */
export function keptJson(pet: Pet): string {
  const known = kept.get(pet)
  if (known !== undefined) return known
  const json = petJson(pet)
  if (kept.size === MAX_KEPT) kept.clear()
  kept.set(pet, json)
  return json
}

/** Checks a NewPet, and drops other members. The error names every wrong member. */
export function checkNewPet(input: unknown): NewPet {
  if (!isRecord(input)) throw codedError('invalid_pet', 'a pet must be an object')
  const { name, status } = input
  const categoryId = toInt64(input['categoryId'])
  const hasName = typeof name === 'string'
  const hasStatus = status === undefined || isPetStatus(status)
  if (hasName && categoryId !== undefined && hasStatus) {
    return status ? { name, categoryId, status } : { name, categoryId }
  }
  const issues: string[] = []
  if (!hasName) issues.push(`name ${required(name)}must be a string`)
  if (categoryId === undefined) {
    issues.push(`categoryId ${required(input['categoryId'])}must be ${CATEGORY_ID}`)
  }
  if (!hasStatus) issues.push(`status must be one of ${PET_STATUSES.join(', ')}, or left out`)
  throw codedError('invalid_pet', issues.join('; '))
}

function required(value: unknown): string {
  return value === undefined ? 'is required and ' : ''
}

/** Checks pets without ids. The error names the first wrong one. */
export function checkNewPets(input: unknown): NewPet[] {
  return checkEach(input, checkWithoutId)
}

/** Checks pets that all have ids, in ascending order, or that all have none. */
export function checkInitialPets(input: unknown): InitialPet[] {
  const haveIds = Array.isArray(input) && hasId(input[0])
  return checkEach<InitialPet>(input, haveIds ? checkPet : checkWithoutId)
}

/** Checks pets with ascending ids above another one. Other members are dropped. */
export function checkPets(input: unknown, after: Int64): Pet[] {
  return checkEach(input, checkPet, after)
}

/** Checks pets with ascending ids, and no other members. */
export function checkPetsStrictly(input: unknown): Pet[] {
  return checkEach(input, (item, last) => {
    const pet = checkPet(item, last)
    const other = Object.keys(item ?? {}).find((name) => !MEMBERS.includes(name))
    if (other === undefined) return pet
    const name = JSON.stringify(other)
    throw codedError('invalid_pet', `it must not have ${name}: a write would drop it`)
  })
}

function checkEach<T extends InitialPet>(
  input: unknown,
  check: (item: unknown, last: Int64) => T,
  after: Int64 = 0,
): T[] {
  if (!Array.isArray(input)) throw codedError('invalid_pet', 'it must be an array of pets')
  let last = after
  return input.map((item: unknown, at) => {
    try {
      const pet = check(item, last)
      last = pet.id ?? 0
      return pet
    } catch (error) {
      throw codedError('invalid_pet', `pet ${at + 1}: ${messageOf(error)}`)
    }
  })
}

function hasId(item: unknown): boolean {
  return isRecord(item) && item['id'] !== undefined
}

function checkWithoutId(input: unknown): NewPet {
  if (!hasId(input)) return checkNewPet(input)
  throw codedError('invalid_pet', 'id must be left out: the store assigns it')
}

/** Checks a pet whose id is above another one. */
export function checkPet(input: unknown, last: Int64 = 0): Pet {
  const pet = checkNewPet(input)
  const id = isRecord(input) ? toInt64(input['id']) : undefined
  if (id !== undefined && id > last) return { id, ...pet }
  throw codedError('invalid_pet', `id must be an integer above ${last} and at most ${MAX_INT64}`)
}

import type { Int64, NewPet, PetStatus } from '../types.ts'

export type { Int64, NewPet, Pet, PetStatus } from '../types.ts'

/** The value, or one message for each thing that is wrong with the input. */
export type Result<T> = { ok: true; value: T } | { ok: false; issues: readonly string[] }

export const PET_STATUSES: readonly PetStatus[] = ['available', 'pending', 'sold']

export function isPetStatus(value: unknown): value is PetStatus {
  return value === 'available' || value === 'pending' || value === 'sold'
}

function isInt64(value: unknown): value is Int64 {
  return typeof value === 'bigint' ? BigInt.asIntN(64, value) === value : Number.isSafeInteger(value)
}

const MUST_BE = {
  name: 'must be a string',
  categoryId: 'must be an integer from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits',
  status: `must be one of ${PET_STATUSES.join(', ')}, or left out`,
}

/** Validates a NewPet; unknown members are dropped. */
export function validateNewPet(input: unknown): Result<NewPet> {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    return { ok: false, issues: ['a pet must be an object'] }
  }
  const { name, categoryId, status }: { name?: unknown; categoryId?: unknown; status?: unknown } = input
  if (typeof name === 'string' && isInt64(categoryId)) {
    if (status === undefined) return { ok: true, value: { name, categoryId } }
    if (isPetStatus(status)) return { ok: true, value: { name, categoryId, status } }
  }
  const issues: string[] = []
  if (typeof name !== 'string') issues.push(issue('name', name))
  if (!isInt64(categoryId)) issues.push(issue('categoryId', categoryId))
  if (status !== undefined && !isPetStatus(status)) issues.push(issue('status', status))
  return { ok: false, issues }
}

function issue(member: keyof typeof MUST_BE, value: unknown): string {
  return `${member} ${value === undefined ? 'is required and ' : ''}${MUST_BE[member]}`
}

/** Validates an array of NewPet, without ids; the issues are those of the first invalid item. */
export function validateNewPets(input: unknown): Result<NewPet[]> {
  if (!Array.isArray(input)) return { ok: false, issues: ['it is not an array'] }
  const pets: NewPet[] = []
  for (const item of input) {
    const pet = 'id' in Object(item) ? HAS_ID : validateNewPet(item)
    if (!pet.ok) return { ok: false, issues: [`in item ${pets.length + 1}, ${pet.issues.join('; ')}`] }
    pets.push(pet.value)
  }
  return { ok: true, value: pets }
}

const HAS_ID = { ok: false, issues: ['id must be left out: the store assigns 1, 2, 3 …'] } as const

/** Serializes a pet, members in the order id, name, categoryId, status. */
export function petJson(id: number, { name, categoryId, status }: NewPet): string {
  const last = status === undefined ? '' : `,"status":"${status}"`
  return `{"id":${id},"name":${JSON.stringify(name)},"categoryId":${categoryId}${last}}`
}

// Each reads the text of a flag or variable. A text without a meaning stays a text, which the rule
// of the setting refuses. Where more can be said, an error says it.
import { readFileSync, statSync } from 'node:fs'
import { TextDecoder } from 'node:util'
import { messageOf } from '../errors.ts'
import { isApiKey, KEY_MUST_BE } from '../http/keys.ts'
import { parseJson } from '../pets/json.ts'
import { validateInitialPets } from '../pets/pet.ts'
import type { InitialPet } from '../types.ts'

export function toBoolean(text: string): boolean {
  if (text === '1' || text === 'true') return true
  if (text === '0' || text === 'false') return false
  throw new Error('must be 1 or true, 0 or false')
}

export function toNumber(text: string): number | string {
  return /^(?:0|[1-9]\d*)$/.test(text) ? Number(text) : text
}

export function toBytes(text: string): number | string {
  const unit = ['k', 'm', 'g'].indexOf(text.slice(-1).toLowerCase()) + 1
  const count = toNumber(unit > 0 ? text.slice(0, -1) : text)
  return typeof count === 'number' ? count * 1_024 ** unit : text
}

export function toList(text: string): string[] {
  return text.split(',').map((item) => item.trim())
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeys(path: string): string[] {
  const lines = readText(path).split('\n')
  const keys = lines.map((line) => line.replace(/#.*/, '').trim())
  const wrong = keys.findIndex((key) => key !== '' && !isApiKey(key))
  if (wrong >= 0) {
    throw new Error(`must hold one key a line: line ${wrong + 1} must be ${KEY_MUST_BE}`)
  }
  const found = keys.filter((key) => key !== '')
  if (found.length === 0) throw new Error('must hold a key')
  return found
}

/** The pets of a file: a JSON array. */
export function readPets(path: string): InitialPet[] {
  const input = parseJson(readText(path))
  const pets = input.ok ? validateInitialPets(input.value) : input
  if (pets.ok) return pets.value
  throw new Error(`must be a JSON array of pets: ${pets.reason}`)
}

function readText(path: string): string {
  try {
    // Reading anything else could block: a pipe waits for its writer.
    if (!statSync(path).isFile()) throw new Error('it is not a regular file')
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
  } catch (error) {
    throw new Error(`must be a file of UTF-8 text that can be read: ${messageOf(error)}`)
  }
}

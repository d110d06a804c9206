import { readFileSync, statSync } from 'node:fs'
import { messageOf } from '../guards.ts'
import { isApiKey, KEY_MUST_BE } from '../http/bearer.ts'
import { parseJson, valueOrThrow } from '../pets/json.ts'
import { validateInitialPets } from '../pets/pet.ts'
import type { InitialPet } from '../types.ts'

/** Reads the text of a flag or variable. May throw an error that says what a file must hold. */
export type Read = (text: string) => unknown

// Text that cannot be read stays text: the rule of the setting refuses it.

export function toBoolean(text: string): boolean | string {
  if (text === '1' || text === 'true') return true
  if (text === '0' || text === 'false') return false
  return text
}

export function toInteger(text: string): number | string {
  return /^(?:0|[1-9]\d*)$/.test(text) ? Number(text) : text
}

export function toBytes(text: string): number | string {
  const unit = ['k', 'm', 'g'].indexOf(text.slice(-1).toLowerCase()) + 1
  const count = toInteger(unit > 0 ? text.slice(0, -1) : text)
  return typeof count === 'number' ? count * 1_024 ** unit : text
}

export function toDelay(text: string): unknown {
  return text.includes('-') ? text.split('-').map(toInteger) : toInteger(text)
}

export function toList(text: string): string[] {
  return text.split(',').map((item) => item.trim())
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeys(path: string): string[] {
  const lines = readText(path).split('\n')
  const keys = lines.map((line) => line.replace(/#.*/, '').trim())
  const wrong = keys.findIndex((key) => key !== '' && !isApiKey(key))
  if (wrong >= 0)
    throw new Error(`must hold one key a line: line ${wrong + 1} must be ${KEY_MUST_BE}`)
  const found = keys.filter((key) => key !== '')
  if (found.length === 0) throw new Error('must hold a key')
  return found
}

export function readInitialPets(path: string): InitialPet[] {
  const input = parseJson(readText(path))
  const pets = input.ok ? validateInitialPets(input.value) : input
  return valueOrThrow(pets, 'must hold a JSON array of NewPet: ')
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

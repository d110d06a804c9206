import { readFileSync, statSync } from 'node:fs'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { messageOf } from './guards.ts'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import type { Rule } from './options.ts'
import { parseJson } from './pets/json.ts'
import { type Seed, validateSeed } from './pets/pet.ts'

export class UsageError extends Error {}

export interface Setting {
  readonly group?: string // starts here in --help
  readonly name?: string // of the flag
  readonly isNegated?: true // the flag alone: it turns off what the variable turns on
  readonly value?: string // its name and kind; a switch has none
  readonly env?: string // the variable
  readonly isList?: boolean // a repeated flag adds a value; otherwise the last one counts
  readonly isSecret?: boolean // no message shows the value
  readonly fallback?: unknown // for --help, if the default cannot be shown as it is
  readonly help: string
  readonly read?: Read // by default as the kind of the value says
}

type Read = (text: string) => unknown // may throw an error that says what the text must be

type Row = Setting & Readonly<Record<'name' | 'env', string>> & { readonly parse: Read }

export function readFlags(args: readonly string[], rows: readonly Row[]): Record<string, unknown> {
  const options: ParseArgsConfig['options'] = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
    healthcheck: { type: 'boolean' },
  }
  for (const { name, value, isList = false } of rows) {
    options[name] = { type: value === undefined ? 'boolean' : 'string', multiple: isList }
  }
  try {
    return parseArgs({ args, options }).values
  } catch (error) {
    const line = messageOf(error).replaceAll('\n', ' ')
    throw new UsageError(line.replace(/\.?$/, '; see --help'))
  }
}

/** The value of a setting, if given: a flag wins over its variable. Ignores an empty variable. */
export function readSetting(row: Row, flag: unknown, variable = ''): unknown {
  if (flag === undefined && variable === '') return undefined
  const { name, isNegated, isSecret, parse } = row
  const value = isNegated ? !flag : flag
  const text = flag === undefined ? variable : String(value) // a list has commas
  try {
    return parse(text)
  } catch (error) {
    const given = flag === undefined ? row.env : `--${name}`
    const shown = isSecret ? given : `${given} ${JSON.stringify(text)}`
    throw new UsageError(`${shown} ${messageOf(error)}`)
  }
}

// By the kind of the value. Any other text stands for itself.
const READERS: Readonly<Record<string, Read>> = {
  N: toInteger,
  SECONDS: toInteger,
  BYTES: toBytes,
  MS: toDelay,
  ORIGIN: toList,
  KEY: toKeys,
}

/** Reads the text of a flag or variable, and checks its value if there is a rule for it. */
export function parser({ value: kind, read }: Setting, rule?: Rule<unknown>): Read {
  if (kind === undefined) return toBoolean
  const reader = read ?? READERS[kind] ?? String
  return (text) => {
    const value = reader(text)
    if (rule === undefined) return value
    if (rule.isType(value) && rule.isInRange(value)) return value
    const note = kind === 'BYTES' ? '; a suffix k, m or g stands for KiB, MiB or GiB' : ''
    throw new Error(`must be ${rule.mustBe}${note}`)
  }
}

function toBoolean(text: string): boolean {
  if (text === '1' || text === 'true') return true
  if (text === '0' || text === 'false') return false
  throw new Error('must be 1, true, 0 or false')
}

function toInteger(text: string): number {
  return /^(?:0|[1-9]\d*)$/.test(text) ? Number(text) : NaN
}

function toBytes(text: string): number {
  const unit = ['k', 'm', 'g'].indexOf(text.slice(-1).toLowerCase()) + 1
  return toInteger(unit > 0 ? text.slice(0, -1) : text) * 1_024 ** unit
}

function toDelay(text: string): number | number[] {
  return text.includes('-') ? text.split('-').map(toInteger) : toInteger(text)
}

function toList(text: string): string[] {
  return text.split(',').map((item) => item.trim())
}

/** The error shows at most three characters of a rejected key, or all of one under eight. */
function toKeys(text: string): string[] {
  const keys = toList(text)
  const wrong = keys.find((key) => !isApiKey(key))
  if (wrong === undefined) return keys
  const shown = JSON.stringify(wrong.length < 8 ? wrong : `${wrong.slice(0, 3)}…`)
  throw new Error(`${shown} (${wrong.length} characters) must be ${KEY_MUST_BE}`)
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeys(path: string): string[] {
  const lines = readText(path).replace(/#.*/g, '').split('\n')
  const keys: string[] = []
  for (const [at, line] of lines.entries()) {
    const key = line.trim()
    if (isApiKey(key)) keys.push(key)
    else if (key !== '')
      throw new Error(`must hold one key a line: line ${at + 1} must be ${KEY_MUST_BE}`)
  }
  if (keys.length === 0) throw new Error('must hold at least one key')
  return keys
}

export function readSeed(path: string): Seed[] {
  const input = parseJson(readText(path))
  const pets = input.ok ? validateSeed(input.value) : input
  if (pets.ok) return pets.value
  throw new Error(`must hold a JSON array of NewPet: ${pets.reason}`)
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

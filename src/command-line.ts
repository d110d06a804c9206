import { readFileSync, statSync } from 'node:fs'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { messageOf } from './guards.ts'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import type { Rule } from './options.ts'
import { parseJson } from './pets/json.ts'
import { type Seed, validateSeed } from './pets/pet.ts'

export class UsageError extends Error {}

export interface Setting<T> {
  readonly group?: string // starts here in --help
  readonly flag: string // with the name of its value; a switch has none
  readonly env?: string // by default PETSTORE_ and the name of the flag in capitals
  readonly isList?: boolean // a repeated flag adds a value; otherwise the last one counts
  readonly isSecret?: boolean // no message shows the value
  readonly fallback?: unknown // for --help, if the default cannot be shown as it is
  readonly help: string
  readonly parse: Parse<T>
}

type Parse<T> = (text: string) => T // throws an error that says what the text must be

type Row = Setting<unknown> & Readonly<Record<'name' | 'env', string>>

export function readFlags(args: readonly string[], rows: readonly Row[]): Record<string, unknown> {
  const options: ParseArgsConfig['options'] = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
    healthcheck: { type: 'boolean' },
  }
  for (const { name, flag, isList = false } of rows) {
    options[name] = { type: flag.includes(' ') ? 'string' : 'boolean', multiple: isList }
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
  const { name, isSecret, parse } = row
  const value = name.startsWith('no-') ? !flag : flag
  const text = flag === undefined ? variable : String(value) // a list has commas
  try {
    return parse(text)
  } catch (error) {
    const given = flag === undefined ? row.env : `--${name}`
    const shown = isSecret ? given : `${given} ${JSON.stringify(text)}`
    throw new UsageError(`${shown} ${messageOf(error)}`)
  }
}

export function parser<T>(rule: Rule<T>, read: Parse<unknown> = String): Parse<T> {
  return (text) => {
    const value = read(text)
    if (rule.isType(value) && rule.isInRange(value)) return value
    throw new Error(`must be ${rule.mustBe}`)
  }
}

export function bytesParser(rule: Rule<number>): Parse<number> {
  const mustBe = `${rule.mustBe}; a suffix k, m or g stands for KiB, MiB or GiB`
  return parser({ ...rule, mustBe }, (text) => {
    const unit = ['k', 'm', 'g'].indexOf(text.slice(-1).toLowerCase()) + 1
    return toInteger(unit > 0 ? text.slice(0, -1) : text) * 1024 ** unit
  })
}

export function toInteger(text: string): number {
  return /^(?:0|[1-9]\d*)$/.test(text) ? Number(text) : NaN
}

export function toList(text: string): string[] {
  return text.split(',').map((item) => item.trim())
}

export function toDelay(text: string): number | number[] | undefined {
  const range = text.split('-').map(toInteger)
  return range.length > 1 ? range : range[0]
}

export function parseSwitch(text: string): boolean {
  if (text === '1' || text === 'true') return true
  if (text === '0' || text === 'false') return false
  throw new Error('must be 1, true, 0 or false')
}

/** The error shows at most three characters of a rejected key, or all of one under eight. */
export function parseKeys(text: string): string[] {
  const keys = toList(text)
  const wrong = keys.find((key) => !isApiKey(key))
  if (wrong === undefined) return keys
  const shown = JSON.stringify(wrong.length < 8 ? wrong : `${wrong.slice(0, 3)}…`)
  throw new Error(`${shown} (${wrong.length} characters) must be ${KEY_MUST_BE}`)
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeys(path: string): string[] {
  const lines = readText(path)
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
  const wrong = lines.findIndex((line) => line !== '' && !isApiKey(line))
  if (wrong >= 0)
    throw new Error(`must hold one key a line: line ${wrong + 1} must be ${KEY_MUST_BE}`)
  const keys = lines.filter(Boolean)
  if (keys.length === 0) throw new Error('must hold at least one key')
  return keys
}

export function readSeed(path: string): Seed[] {
  const mustHold = 'must hold a JSON array of NewPet'
  const input = parseJson(readText(path))
  if (!input.ok) throw new Error(`${mustHold}: ${input.reason}`)
  const pets = validateSeed(input.value)
  if (!pets.ok) throw new Error(`${mustHold}: ${pets.reason}`)
  return pets.value
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

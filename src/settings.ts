import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import { BOOLEAN, DEFAULTS, integer, type Rule, RULES } from './options.ts'
import { messageOf } from './pets/errors.ts'
import { parseJson } from './pets/json.ts'
import { type NewPet, validateNewPets } from './pets/pet.ts'
import type { PetstoreOptions } from './types.ts'

/** Bad use: the message says what was given and what it must be. */
export class UsageError extends Error {}

/** The settings that were given. */
export interface Config extends Omit<PetstoreOptions, 'apiKeys' | 'pets' | 'journal' | 'logStream'> {
  apiKey?: readonly string[]
  /** The keys are those at the start: a pipe can be read only once. */
  apiKeysFile?: { path: string; keys: readonly string[] }
  demo?: boolean
  seed?: readonly NewPet[]
  /** Seconds. */
  drain?: number
}

interface Setting<T> {
  /** With the name of its value; a switch has none. */
  readonly flag: string
  readonly variable: string
  readonly meaning: string
  /** The default in `--help`, unless it is that of {@link FALLBACKS}. */
  readonly shown?: string
  /** @throws UsageError whose message continues the name and the text: "must be …". */
  readonly parse: (text: string) => T
  /** The text is never shown whole. */
  readonly isSecret?: true
}

const FALLBACKS = new Map<string, unknown>(Object.entries({ ...DEFAULTS, port: 8080, log: undefined, drain: 8 }))

// prettier-ignore
const SETTINGS: { readonly [K in keyof Config]-?: Setting<NonNullable<Config[K]>> } = {
  port: { flag: '--port N', variable: 'PORT', meaning: 'port to listen on; 0 picks a free one', parse: by(RULES.port) },
  host: { flag: '--host ADDRESS', variable: 'HOST', meaning: 'address to listen on', parse: by(RULES.host) },
  basePath: { flag: '--base-path PATH', variable: 'PETSTORE_BASE_PATH', meaning: 'path that the operations are under', parse: by(RULES.basePath) },
  apiKey: { flag: '--api-key KEY', variable: 'PETSTORE_API_KEYS', meaning: 'valid key; may be repeated (variable: commas)', shown: 'generated', parse: parseKeys, isSecret: true },
  apiKeysFile: { flag: '--api-keys-file FILE', variable: 'PETSTORE_API_KEYS_FILE', meaning: 'more keys, one a line, # starts a comment; read again on SIGHUP', parse: (path) => ({ path, keys: readKeysFile(path) }) },
  demo: { flag: '--demo', variable: 'PETSTORE_DEMO', meaning: 'fill an empty store with a dozen pets', shown: 'off', parse: by(BOOLEAN) },
  seed: { flag: '--seed FILE', variable: 'PETSTORE_SEED', meaning: 'fill an empty store with this JSON array of NewPet', parse: readSeed },
  snapshot: { flag: '--snapshot FILE', variable: 'PETSTORE_SNAPSHOT', meaning: 'JSON file that keeps the pets', parse: by(RULES.snapshot) },
  maxBody: { flag: '--max-body BYTES', variable: 'PETSTORE_MAX_BODY', meaning: 'bytes in the body of a request; k, m and g multiply', shown: '64k', parse: bytesBy(RULES.maxBody) },
  maxStore: { flag: '--max-store BYTES', variable: 'PETSTORE_MAX_STORE', meaning: 'bytes of pets, 100 more for each, beyond which 507', shown: 'a quarter of the heap, 256m at most', parse: bytesBy(RULES.maxStore) },
  getPet: { flag: '--get-pet STATE', variable: 'PETSTORE_GET_PET', meaning: 'deprecated, or gone: 410, to rehearse its removal', parse: by(RULES.getPet) },
  page: { flag: '--no-page', variable: 'PETSTORE_PAGE', meaning: 'without the page at /', shown: 'on', parse: by(BOOLEAN) },
  maxConnections: { flag: '--max-connections N', variable: 'PETSTORE_MAX_CONNECTIONS', meaning: 'connections beyond which further ones are closed at once', parse: by(RULES.maxConnections) },
  log: { flag: '--log FORMAT', variable: 'PETSTORE_LOG', meaning: 'text, json or off', shown: 'text on a terminal, else json', parse: by(RULES.log) },
  keepAlive: { flag: '--keep-alive SECONDS', variable: 'PETSTORE_KEEP_ALIVE', meaning: "how long an idle connection is kept: longer than the proxy's", parse: by(RULES.keepAlive) },
  drain: { flag: '--drain SECONDS', variable: 'PETSTORE_DRAIN', meaning: 'time for requests in flight after SIGTERM or SIGINT', parse: by(integer(0, 86_400)) },
  cors: { flag: '--cors ORIGIN', variable: 'PETSTORE_CORS', meaning: 'origin whose scripts may call, or *', parse: by(RULES.cors) },
  controlPort: { flag: '--control-port N', variable: 'PETSTORE_CONTROL_PORT', meaning: 'port of the test controls: reset, requests, faults', parse: by(RULES.controlPort) },
  controlHost: { flag: '--control-host ADDRESS', variable: 'PETSTORE_CONTROL_HOST', meaning: 'address of the test controls', parse: by(RULES.controlHost) },
}

const ROWS = Object.entries<Setting<unknown>>(SETTINGS)

function helpRow([key, { flag, variable, meaning, shown }]: (typeof ROWS)[number]): string {
  const fallback = shown ?? FALLBACKS.get(key) ?? 'off'
  return `  ${flag.padEnd(22)}  ${variable.padEnd(24)}  ${meaning} (${fallback})\n`
}

export const HELP: string = `Usage: petstore-server [flag …]

Serves a pet store over HTTP and JSON. A flag wins over its variable.

  flag                    variable                  meaning (default)
${ROWS.map(helpRow).join('')}\
  --healthcheck           ask a server with this configuration whether it is ready; exit 0 or 1
  -h, --help              print this and exit
  -v, --version           print the version and exit
`

/**
 * Reads the settings from flags and, without a flag, from the environment; an empty variable counts as none.
 *
 * @throws UsageError that names the flag or variable, the value and what it must be.
 */
export function readCommand(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): { action: 'serve' | 'healthcheck' | 'help' | 'version'; config: Config } {
  const flags = readFlags(args)
  const action = (['help', 'version', 'healthcheck'] as const).find((name) => flags[name] !== undefined) ?? 'serve'
  const given = ROWS.flatMap(([key, setting]) => {
    // A health check needs an address, and not the files that the server began with.
    const isNeeded = action === 'serve' || (action === 'healthcheck' && ['host', 'port'].includes(key))
    const { flag, variable, parse, isSecret } = setting
    const [name = ''] = flag.split(' ')
    const fromFlag = flags[name.slice('--'.length)]
    const text = fromFlag ?? env[variable] ?? ''
    if (!isNeeded || (fromFlag === undefined && text === '')) return []
    try {
      return [[key, parse(text)]]
    } catch (error) {
      const shown = isSecret ? '' : `${JSON.stringify(text)} `
      throw new UsageError(`${fromFlag === undefined ? variable : name} ${shown}${messageOf(error)}`)
    }
  })
  return { action, config: Object.fromEntries(given) }
}

/** The variables that look like settings and are none. */
export function unknownVariables(env: Readonly<Record<string, string | undefined>>): string[] {
  const known = new Set(ROWS.map(([, { variable }]) => variable))
  return Object.keys(env).filter((name) => name.startsWith('PETSTORE_') && !known.has(name))
}

/** The text of each flag given; the text of a switch is the one that its variable would have. */
function readFlags(args: readonly string[]): Readonly<Record<string, string>> {
  const named = ROWS.map(([, { flag }]) => flag.slice('--'.length).split(' '))
  const known = named.map(([name = '', value]) => [
    name,
    { type: value ? 'string' : 'boolean', multiple: name === 'api-key' },
  ])
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        ...Object.fromEntries(known),
        healthcheck: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean', short: 'v' },
      },
    })
    const textOf = (name: string, value: unknown) =>
      value === true ? (name.startsWith('no-') ? '0' : '1') : String(value)
    return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, textOf(name, value)]))
  } catch (error) {
    const [reason = ''] = messageOf(error)
      .replaceAll('\n', ' ')
      .split(/\. (?:To specify a positional|This command)/)
    throw new UsageError(`${reason}; see --help`)
  }
}

function by<T>({ mustBe, isType, isInRange }: Rule<T>): (text: string) => T {
  return (text) => {
    const candidates: unknown[] = [text, /^\d{1,9}$/.test(text) ? Number(text) : undefined, BOOLEANS.get(text)]
    for (const value of candidates) if (isType(value) && isInRange?.(value) !== false) return value
    throw new UsageError(`must be ${mustBe}`)
  }
}

const BOOLEANS = new Map(Object.entries({ 1: true, true: true, 0: false, false: false }))

function bytesBy(rule: Rule<number>): (text: string) => number {
  return (text) => {
    const [, digits, unit = ''] = /^(\d{1,15})([kmg]?)$/i.exec(text) ?? []
    const bytes = Number(digits) * 1024 ** ['', 'k', 'm', 'g'].indexOf(unit.toLowerCase())
    if (rule.isInRange?.(bytes)) return bytes
    throw new UsageError(`must be ${rule.mustBe}; k, m or g behind it multiplies by 1024`)
  }
}

/** Keys with commas between them. Of a refused one the message shows only enough to recognize it. */
function parseKeys(text: string): string[] {
  return text.split(',').map((part) => {
    const key = part.trim()
    if (isApiKey(key)) return key
    const shown = key.length < 8 ? key : `${key.slice(0, 3)}…`
    throw new UsageError(`${JSON.stringify(shown)} (${key.length} characters) must be ${KEY_MUST_BE}`)
  })
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeysFile(path: string): string[] {
  const lines = readText(path).split('\n')
  const keys = lines.map((line) => line.replace(/#.*/, '').trim())
  const wrong = keys.findIndex((key) => key !== '' && !isApiKey(key))
  if (wrong >= 0) throw new UsageError(`must hold one key a line: line ${wrong + 1} must be ${KEY_MUST_BE}`)
  const found = keys.filter((key) => key !== '')
  if (found.length === 0) throw new UsageError('must hold at least one key')
  return found
}

/** A file with a JSON array of NewPet. */
function readSeed(path: string): NewPet[] {
  const input = parseJson(readText(path))
  const pets = input.ok ? validateNewPets(input.value) : input
  if (pets.ok) return pets.value
  throw new UsageError(`must hold a JSON array of NewPet: ${pets.issues.join('; ')}`)
}

function readText(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
  } catch (error) {
    throw new UsageError(`must be a file of UTF-8 text that can be read: ${messageOf(error)}`)
  }
}

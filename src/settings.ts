import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import { BOOLEAN, DEFAULTS, integer, type Rule, RULES } from './options.ts'
import { messageOf } from './pets/errors.ts'
import { parseJson } from './pets/json.ts'
import { type NewPet, validateNewPets } from './pets/pet.ts'
import type { PetstoreOptions } from './types.ts'

export class UsageError extends Error {}

export interface Config extends Omit<PetstoreOptions, 'apiKeys' | 'pets' | 'journal' | 'logStream'> {
  apiKey?: readonly string[]
  apiKeysFile?: { path: string; keys: readonly string[] } // at the start: a pipe can be read only once
  demo?: readonly NewPet[]
  seed?: readonly NewPet[]
  drain?: number
  drainDelay?: number
}

interface Setting<T> {
  heading?: string // of a group in `--help`, which begins here
  flag: string // with the name of its value; a switch has none
  variable: string
  meaning: string // with the default behind it, unless that is an option's
  parse: (text: string) => T // throws an error whose message continues the name and the text: "must be …"
}

const DEMO = join(import.meta.dirname, 'demo.json')

// prettier-ignore
const SETTINGS: { readonly [K in keyof Config]-?: Setting<NonNullable<Config[K]>> } = {
  port: { heading: 'Address', flag: '--port N', variable: 'PORT', meaning: 'port to listen on; 0 picks a free one (8080)', parse: by(RULES.port) },
  host: { flag: '--host ADDRESS', variable: 'HOST', meaning: 'address to listen on', parse: by(RULES.host) },
  basePath: { flag: '--base-path PATH', variable: 'PETSTORE_BASE_PATH', meaning: 'path that the operations are under', parse: by(RULES.basePath) },
  cors: { flag: '--cors ORIGIN', variable: 'PETSTORE_CORS', meaning: 'origin whose scripts may call, or *', parse: by(RULES.cors) },
  page: { flag: '--no-page', variable: 'PETSTORE_PAGE', meaning: 'without the page at / (on)', parse: by(BOOLEAN) },
  apiKey: { heading: 'Keys', flag: '--api-key KEY', variable: 'PETSTORE_API_KEYS', meaning: 'valid key; may be repeated (variable: commas) (generated)', parse: parseKeys },
  apiKeysFile: { flag: '--api-keys-file FILE', variable: 'PETSTORE_API_KEYS_FILE', meaning: 'more keys, one a line, # starts a comment; SIGHUP reads it again', parse: (path) => ({ path, keys: readKeysFile(path) }) },
  demo: { heading: 'Pets', flag: '--demo', variable: 'PETSTORE_DEMO', meaning: 'fill an empty store with a dozen pets', parse: (text) => (by(BOOLEAN)(text) ? readSeed(DEMO) : []) },
  seed: { flag: '--seed FILE', variable: 'PETSTORE_SEED', meaning: 'fill an empty store with this JSON array of NewPet', parse: readSeed },
  snapshot: { flag: '--snapshot FILE', variable: 'PETSTORE_SNAPSHOT', meaning: 'JSON file that keeps the pets', parse: by(RULES.snapshot) },
  getPet: { flag: '--get-pet STATE', variable: 'PETSTORE_GET_PET', meaning: 'deprecated, or gone: 410, to rehearse its removal', parse: by(RULES.getPet) },
  maxBody: { heading: 'Limits', flag: '--max-body BYTES', variable: 'PETSTORE_MAX_BODY', meaning: 'bytes in the body of a request; k, m and g multiply (64k)', parse: bytesBy(RULES.maxBody) },
  maxStore: { flag: '--max-store BYTES', variable: 'PETSTORE_MAX_STORE', meaning: 'bytes of pets, 100 more for each (a quarter of the heap, 256m at most)', parse: bytesBy(RULES.maxStore) },
  maxConnections: { flag: '--max-connections N', variable: 'PETSTORE_MAX_CONNECTIONS', meaning: 'connections, beyond which the longest idle one is closed', parse: by(RULES.maxConnections) },
  log: { heading: 'Operation', flag: '--log FORMAT', variable: 'PETSTORE_LOG', meaning: 'text, json or off (text on a terminal, else json)', parse: by(RULES.log) },
  keepAlive: { flag: '--keep-alive SECONDS', variable: 'PETSTORE_KEEP_ALIVE', meaning: "how long an idle connection is kept: longer than the proxy's", parse: by(RULES.keepAlive) },
  drain: { flag: '--drain SECONDS', variable: 'PETSTORE_DRAIN', meaning: 'time for requests in flight after SIGTERM or SIGINT (8)', parse: by(integer(0, 86_400)) },
  drainDelay: { flag: '--drain-delay SECONDS', variable: 'PETSTORE_DRAIN_DELAY', meaning: 'time before that to serve on, while /readyz is 503 (0)', parse: by(integer(0, 86_400)) },
  delay: { heading: 'Tests', flag: '--delay MS', variable: 'PETSTORE_DELAY', meaning: 'milliseconds, or MIN-MAX, before the response of each operation', parse: by(RULES.delay) },
  controlPort: { flag: '--control-port N', variable: 'PETSTORE_CONTROL_PORT', meaning: 'port of the test controls: reset, requests, faults', parse: by(RULES.controlPort) },
  controlHost: { flag: '--control-host ADDRESS', variable: 'PETSTORE_CONTROL_HOST', meaning: 'address of the test controls', parse: by(RULES.controlHost) },
}

const ROWS = Object.entries<Setting<unknown>>(SETTINGS).map(([key, row]) => {
  const [name = '', value] = row.flag.slice('--'.length).split(' ')
  const option = { type: value === undefined ? 'boolean' : 'string', multiple: name === 'api-key' } as const
  return { key, name, option, ...row }
})
const SWITCH = new Map(Object.entries({ 1: true, true: true, 0: false, false: false }))

function helpRow({ key, heading, flag, variable, meaning }: (typeof ROWS)[number]): string {
  const fallback = meaning.endsWith(')') ? '' : ` (${Object(DEFAULTS)[key] ?? 'off'})`
  return `${heading ? `\n${heading}\n` : ''}  ${flag.padEnd(24)} ${variable}\n      ${meaning}${fallback}\n`
}

export const HELP: string = `Usage: petstore-server [flag …]

Serves a pet store over HTTP and JSON. A flag wins over the variable beside it.
${ROWS.map(helpRow).join('')}
Commands
  --healthcheck    ask a server with this configuration: exit 0 if it is ready
  -h, --help       print this and exit
  -v, --version    print the version and exit

Examples
  petstore-server --demo
  petstore-server --host 0.0.0.0 --api-keys-file keys --snapshot pets.json
`

/** Reads flags and, without a flag, variables; an empty one counts as none. `unknown` are those that look like settings. */
export function readCommand(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): { action: 'serve' | 'healthcheck' | 'help' | 'version'; config: Config; unknown: string[] } {
  const flags = readFlags(args)
  const action = (['help', 'version', 'healthcheck'] as const).find((name) => flags[name] !== undefined) ?? 'serve'
  const config: Config = {}
  for (const { key, name, variable, parse } of ROWS) {
    // A health check needs an address, and not the files that the server began with.
    if (action !== 'serve' && !(action === 'healthcheck' && ['host', 'port'].includes(key))) continue
    const text = flags[name] ?? (env[variable] || undefined)
    try {
      if (text !== undefined) Object.assign(config, { [key]: parse(text) })
    } catch (error) {
      const given = flags[name] === undefined ? variable : `--${name}`
      throw new UsageError(`${given} ${key === 'apiKey' ? '' : `${JSON.stringify(text)} `}${messageOf(error)}`)
    }
  }
  const { port = 8080, controlPort } = config
  if (port === controlPort && port > 0) throw new UsageError(`--control-port ${port} must not be that of --port`)
  const known = new Set(ROWS.map(({ variable }) => variable))
  return { action, config, unknown: Object.keys(env).filter((name) => /^PETSTORE_/.test(name) && !known.has(name)) }
}

/** The text of each flag given; the text of a switch is the one that its variable would have. */
function readFlags(args: readonly string[]): Readonly<Record<string, string>> {
  const options = {
    ...Object.fromEntries(ROWS.map(({ name, option }) => [name, option])),
    healthcheck: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
  } as const
  try {
    const given = Object.entries(parseArgs({ args: [...args], options }).values)
    const textOf = (name: string, value: unknown) => (value === true ? `${!name.startsWith('no-')}` : `${value}`)
    return Object.fromEntries(given.map(([name, value]) => [name, textOf(name, value)]))
  } catch (error) {
    const [reason] = messageOf(error)
      .replaceAll('\n', ' ')
      .split(/\. (?:To specify a positional|This command)/)
    throw new UsageError(`${reason}; see --help`)
  }
}

function by<T>({ mustBe, isType, isInRange }: Rule<T>): (text: string) => T {
  return (text) => {
    const numbers = /^\d{1,15}(-\d{1,15})?$/.test(text) ? text.split('-').map(Number) : []
    const candidates: unknown[] = [text, numbers.length > 1 ? numbers : numbers[0], SWITCH.get(text)]
    for (const value of candidates) if (isType(value) && isInRange?.(value) !== false) return value
    throw new UsageError(`must be ${mustBe}`)
  }
}

function bytesBy(rule: Rule<number>): (text: string) => number {
  const parse = by({ ...rule, mustBe: `${rule.mustBe}; k, m or g behind it multiplies by 1024` })
  const factor = (unit: string) => 1024 ** ' kmg'.indexOf(unit.toLowerCase())
  return (text) => parse(text.replace(/^(\d+)([kmg])$/i, (_, digits, unit) => `${digits * factor(unit)}`))
}

/** Keys with commas between them. Of a refused one the message shows only enough to recognize it. */
function parseKeys(text: string): string[] {
  const keys = text.split(',').map((key) => key.trim())
  const wrong = keys.find((key) => !isApiKey(key))
  if (wrong === undefined) return keys
  const shown = JSON.stringify(wrong.length < 8 ? wrong : `${wrong.slice(0, 3)}…`)
  throw new UsageError(`${shown} (${wrong.length} characters) must be ${KEY_MUST_BE}`)
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeysFile(path: string): string[] {
  const keys = Array.from(readText(path).split('\n'), (line) => line.replace(/#.*/, '').trim())
  const wrong = keys.findIndex((key) => key !== '' && !isApiKey(key))
  if (wrong >= 0) throw new UsageError(`must hold one key a line: line ${wrong + 1} must be ${KEY_MUST_BE}`)
  if (keys.every((key) => key === '')) throw new UsageError('must hold at least one key')
  return keys.filter((key) => key !== '')
}

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

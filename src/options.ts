import { readFileSync } from 'node:fs'
import { getHeapStatistics } from 'node:v8'
import { codedError } from './errors.ts'
import { isApiKey, KEY_MUST_BE, readKeys } from './http/keys.ts'
import { readJson } from './pets/json.ts'
import { checkInitialPets } from './pets/pet.ts'
import { BOOLEAN, checkMembers, integer, matching, oneOf, type Rule, toNumber } from './rules.ts'
import type { InitialPet, Options, StartOptions } from './types.ts'

/** What flags and variables say: options of startPetstore, and those of the executable alone. */
export interface Settings extends StartOptions {
  readonly apiKeysFile?: string
  readonly demo?: boolean
  readonly storeModule?: string
  readonly drain: number
  readonly drainDelay: number
}

/** An option: what it must be, its default, and the flag and the variable that give it. */
export interface Option {
  readonly rule: Rule
  readonly default?: unknown
  readonly flag?: string // with the name of its value, unless it is a switch
  readonly flagDefault?: unknown // the default of the executable, if it differs
  readonly variable?: string
  readonly help?: string
  readonly isList?: true // a repeated flag adds a value; otherwise the last one counts
  readonly isForExecutable?: true // startPetstore does not take it
}

const HEAP_LIMIT = getHeapStatistics().heap_size_limit
const STORE_FUNCTIONS = ['list', 'get', 'add', 'reset', 'close']

const PORT = integer(0, 65_535)
const PATH = matching('a path', /./s)

/** Milliseconds; a flag has seconds. */
export const TIME: Rule = time(0)

export const API_KEYS: Rule = {
  mustBe: `a list of keys, each ${KEY_MUST_BE}`,
  accepts: (value) => Array.isArray(value) && value.length > 0 && value.every(isApiKey),
  isSecret: true,
  read: (text) => text.split(',').map((key) => key.trim()),
  textMustBe: KEY_MUST_BE,
}

/** Every option, in the order of --help. Without a flag, only startPetstore takes it. */
export const OPTIONS: Readonly<Record<keyof Settings, Option>> = {
  port: {
    rule: PORT,
    default: 0,
    flag: '--port N',
    flagDefault: 8080,
    variable: 'PORT',
    help: 'port to listen on (8080); 0 picks a free one',
  },
  host: {
    rule: matching('a host name or an IP address', /^[\w.:-]+$/),
    default: '127.0.0.1',
    flag: '--host ADDRESS',
    variable: 'HOST',
    help: 'address to listen on (127.0.0.1); :: is every address',
  },
  basePath: {
    rule: matching('empty, or a path such as /shop/v1, of A-Z a-z 0-9 - . _ ~', /^(\/[\w.~-]+)*$/),
    default: '/v1',
    flag: '--base-path PATH',
    variable: 'PETSTORE_BASE_PATH',
    help: 'path that the operations are under (/v1)',
  },
  apiKeys: {
    rule: API_KEYS,
    flag: '--api-key KEY',
    variable: 'PETSTORE_API_KEYS',
    help: 'valid key; repeat for more (variable: commas); without any, one is generated',
    isList: true,
  },
  apiKeysFile: {
    rule: { ...PATH, mustBe: 'a file of keys', read: checkKeysFile },
    flag: '--api-keys-file FILE',
    variable: 'PETSTORE_API_KEYS_FILE',
    help: 'more keys, one a line, # starts a comment; read again when it changes',
    isForExecutable: true,
  },
  demo: {
    rule: BOOLEAN,
    flag: '--demo',
    variable: 'PETSTORE_DEMO',
    help: 'a dozen pets in an empty store',
    isForExecutable: true,
  },
  pets: {
    rule: {
      mustBe: 'an array of pets',
      accepts: Array.isArray,
      read: readSeed,
      textMustBe: 'a JSON file with an array of pets',
    },
    default: [],
    flag: '--seed FILE',
    variable: 'PETSTORE_SEED',
    help: 'JSON array of pets for an empty store',
  },
  snapshot: {
    rule: PATH,
    flag: '--snapshot FILE',
    variable: 'PETSTORE_SNAPSHOT',
    help: 'JSON file that keeps the pets; each create rewrites it',
  },
  store: {
    rule: {
      mustBe: `an object with the functions ${STORE_FUNCTIONS.join(', ')}`,
      accepts: isStore,
      isSecret: true, // a connection string may be given in its place
    },
  },
  storeModule: {
    rule: PATH,
    flag: '--store MODULE',
    variable: 'PETSTORE_STORE',
    help: 'path of a module whose default export opens a store of your own',
    isForExecutable: true,
  },
  cors: {
    rule: BOOLEAN,
    default: false,
    flag: '--cors',
    variable: 'PETSTORE_CORS',
    help: 'scripts of web pages may call, of every origin',
  },
  maxStore: {
    rule: bytes(Math.floor(HEAP_LIMIT / 2)),
    default: Math.floor(Math.min(HEAP_LIMIT / 4, 256 * 2 ** 20)),
    flag: '--max-store BYTES',
    variable: 'PETSTORE_MAX_STORE',
    help: 'bytes that pets may take (a quarter of the heap, 256m at most); also with k, m or g',
  },
  log: {
    rule: oneOf('text', 'json', 'off'),
    default: 'off',
    flag: '--log FORMAT',
    flagDefault: process.stdout.isTTY ? 'text' : 'json',
    variable: 'PETSTORE_LOG',
    help: 'text, json or off (text on a terminal, else json)',
  },
  keepAlive: {
    rule: time(1),
    default: 75_000,
    flag: '--keep-alive SECONDS',
    variable: 'PETSTORE_KEEP_ALIVE',
    help: "time that an idle connection is kept (75): longer than the proxy's",
  },
  drain: {
    rule: TIME,
    flag: '--drain SECONDS',
    flagDefault: 8_000,
    variable: 'PETSTORE_DRAIN',
    help: 'time that requests in flight get at a stop (8)',
    isForExecutable: true,
  },
  drainDelay: {
    rule: TIME,
    flag: '--drain-delay SECONDS',
    flagDefault: 0,
    variable: 'PETSTORE_DRAIN_DELAY',
    help: 'time after SIGTERM in which it goes on serving, and /readyz says 503 (0)',
    isForExecutable: true,
  },
  controlPort: {
    rule: PORT,
    flag: '--control-port N',
    variable: 'PETSTORE_CONTROL_PORT',
    help: 'port of the test controls, on the same host',
  },
}

function time(minimum: number): Rule {
  const day = 86_400
  return {
    ...integer(minimum, day * 1_000),
    read: (text) => toNumber(text) * 1_000,
    textMustBe: `whole seconds from ${minimum} to ${day}`,
  }
}

function bytes(maximum: number): Rule {
  return {
    ...integer(1, maximum),
    read: (text) => {
      const unit = ['k', 'm', 'g'].indexOf(text.slice(-1).toLowerCase()) + 1
      return toNumber(unit > 0 ? text.slice(0, -1) : text) * 1_024 ** unit
    },
    textMustBe: `a number of bytes from 1 to ${maximum}; k, m or g may follow it`,
  }
}

function isStore(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return STORE_FUNCTIONS.every((name) => typeof Reflect.get(value, name) === 'function')
}

/** The pets of a file. */
export function readSeed(path: string): InitialPet[] {
  return checkInitialPets(readJson(readFileSync(path)))
}

function checkKeysFile(path: string): string {
  readKeys(path)
  return path
}

/** Checks options and fills in defaults. */
export function readOptions(given: StartOptions): Options {
  const rows = Object.entries(OPTIONS).filter(([, { isForExecutable }]) => !isForExecutable)
  const rules = Object.fromEntries(rows.map(([name, { rule }]) => [name, rule]))
  const members = checkMembers('options', given, rules)
  const { store, snapshot, maxStore, pets } = given
  if (store && [snapshot, maxStore, pets].some((value) => value !== undefined)) {
    const others = 'snapshot, maxStore or pets (--snapshot, --max-store, --demo, --seed)'
    throw codedError('invalid_option', `store must go without ${others}`)
  }
  const complete = rows.map(([name, row]) => [name, members[name] ?? row.default])
  const options: Options = Object.fromEntries(complete) // each value follows the rule of its row
  return { ...options, pets: checkInitialPets(options.pets) }
}

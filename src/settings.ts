import type { Flag } from './flags.ts'
import type { LogFormat } from './http/log.ts'
import type { NewPet } from './pets/pet.ts'
import { DEFAULTS, type PetstoreOptions, OPTION_RULES as RULES } from './options.ts'
import { integer } from './rules.ts'
import { bit, bytes, checkKey, digits, readKeysFile, readSeed, word } from './values.ts'

/** A file of keys, and what it held at the start: it may be a pipe, which gives its text once. */
export interface KeysFile {
  path: string
  keys: readonly string[]
}

type Passed = 'port' | 'host' | 'basePath' | 'maxBody' | 'maxStore' | 'getPet' | 'page' | 'maxConnections' | 'keepAlive'

/** What the executable is told: every setting with its value, undefined where it is off. */
export interface Config extends Required<Pick<PetstoreOptions, Passed | 'controlHost'>> {
  apiKey: readonly string[]
  apiKeysFile: KeysFile | undefined
  demo: boolean
  seed: readonly NewPet[] | undefined
  snapshot: string | undefined
  cors: string | undefined
  /** Undefined: text on a terminal, else json. */
  log: LogFormat | undefined
  /** Seconds. */
  drain: number
  controlPort: number | undefined
}

/** One row of the table from which flags, variables, defaults, checks and `--help` come. */
export interface Setting<T> extends Flag {
  variable: string
  default: T
  /** The default as `--help` shows it; the value itself unless given. */
  shown?: string
  help: string
  /** The text is never repeated as a whole. */
  isSecret?: true
  /** @throws UsageError whose message goes on behind the name and the text: "must be …". */
  parse: (text: string) => T
}

/** The table of settings. */
export const SETTINGS: { [K in keyof Config]: Setting<Config[K]> } = {
  port: {
    flag: '--port',
    variable: 'PORT',
    value: 'N',
    default: 8080,
    help: 'port to listen on; 0 picks a free one',
    parse: digits(RULES.port),
  },
  host: {
    flag: '--host',
    variable: 'HOST',
    value: 'ADDRESS',
    default: DEFAULTS.host,
    help: 'address to listen on',
    parse: word(RULES.host),
  },
  basePath: {
    flag: '--base-path',
    variable: 'PETSTORE_BASE_PATH',
    value: 'PATH',
    default: DEFAULTS.basePath,
    help: 'path that the operations stand under',
    parse: word(RULES.basePath),
  },
  apiKey: {
    flag: '--api-key',
    variable: 'PETSTORE_API_KEYS',
    value: 'KEY',
    default: [],
    shown: 'generated',
    help: 'a key that is valid; may be given again (the variable: with commas)',
    isSecret: true,
    repeats: true,
    parse: (text) => text.split(',').map((key) => checkKey(key.trim())),
  },
  apiKeysFile: {
    flag: '--api-keys-file',
    variable: 'PETSTORE_API_KEYS_FILE',
    value: 'FILE',
    default: undefined,
    shown: 'none',
    help: 'more keys, one a line, # starts a comment; read again on SIGHUP',
    parse: (path) => ({ path, keys: readKeysFile(path) }),
  },
  demo: {
    flag: '--demo',
    variable: 'PETSTORE_DEMO',
    switch: '1',
    default: false,
    shown: 'off',
    help: 'begin an empty store with a dozen animals',
    parse: bit,
  },
  seed: {
    flag: '--seed',
    variable: 'PETSTORE_SEED',
    value: 'FILE',
    default: undefined,
    shown: 'none',
    help: 'begin an empty store with this JSON array of NewPet',
    parse: readSeed,
  },
  snapshot: {
    flag: '--snapshot',
    variable: 'PETSTORE_SNAPSHOT',
    value: 'FILE',
    default: undefined,
    shown: 'off',
    help: 'the JSON file that keeps the animals',
    parse: word(RULES.snapshot),
  },
  maxBody: {
    flag: '--max-body',
    variable: 'PETSTORE_MAX_BODY',
    value: 'BYTES',
    default: DEFAULTS.maxBody,
    shown: '64k',
    help: "bytes that a request's body may have; k, m and g multiply",
    parse: bytes(RULES.maxBody, '256m'),
  },
  maxStore: {
    flag: '--max-store',
    variable: 'PETSTORE_MAX_STORE',
    value: 'BYTES',
    default: DEFAULTS.maxStore,
    shown: '256m',
    help: "bytes of animals' JSON that are kept, beyond which 507",
    parse: bytes(RULES.maxStore, '1024g'),
  },
  getPet: {
    flag: '--get-pet',
    variable: 'PETSTORE_GET_PET',
    value: 'STATE',
    default: DEFAULTS.getPet,
    help: 'deprecated, or gone: 410, to rehearse its removal',
    parse: word(RULES.getPet),
  },
  page: {
    flag: '--no-page',
    variable: 'PETSTORE_PAGE',
    switch: '0',
    default: DEFAULTS.page,
    shown: 'on',
    help: 'without the page at /',
    parse: bit,
  },
  maxConnections: {
    flag: '--max-connections',
    variable: 'PETSTORE_MAX_CONNECTIONS',
    value: 'N',
    default: DEFAULTS.maxConnections,
    help: 'open connections beyond which further ones are closed at once',
    parse: digits(RULES.maxConnections),
  },
  log: {
    flag: '--log',
    variable: 'PETSTORE_LOG',
    value: 'FORM',
    default: undefined,
    shown: 'text on a terminal, else json',
    help: 'text, json or off',
    parse: word(RULES.log),
  },
  keepAlive: {
    flag: '--keep-alive',
    variable: 'PETSTORE_KEEP_ALIVE',
    value: 'SECONDS',
    default: DEFAULTS.keepAlive,
    help: "how long an idle connection is kept: longer than the proxy's",
    parse: digits(RULES.keepAlive),
  },
  drain: {
    flag: '--drain',
    variable: 'PETSTORE_DRAIN',
    value: 'SECONDS',
    default: 8,
    help: 'how long requests in flight get after SIGTERM or SIGINT',
    parse: digits(integer(0, 86_400)),
  },
  cors: {
    flag: '--cors',
    variable: 'PETSTORE_CORS',
    value: 'ORIGIN',
    default: undefined,
    shown: 'off',
    help: 'origin whose scripts may call, or *',
    parse: word(RULES.cors),
  },
  controlPort: {
    flag: '--control-port',
    variable: 'PETSTORE_CONTROL_PORT',
    value: 'N',
    default: undefined,
    shown: 'off',
    help: 'port of the test controls: reset, requests, faults',
    parse: digits(RULES.controlPort),
  },
  controlHost: {
    flag: '--control-host',
    variable: 'PETSTORE_CONTROL_HOST',
    value: 'ADDRESS',
    default: DEFAULTS.controlHost,
    help: 'address that the test controls listen on',
    parse: word(RULES.controlHost),
  },
}

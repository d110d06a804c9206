import type { Flag } from './flags.ts'
import type { LogFormat } from './http/log.ts'
import type { NewPet } from './pets/pet.ts'
import { DEFAULTS, type Options, OPTION_RULES as RULES } from './options.ts'
import { integer } from './rules.ts'
import { bit, bytes, checkKeys, digits, readKeysFile, readSeed, word } from './values.ts'

/** A file of keys, and what it held at the start: it may be a pipe, which gives its text once. */
export interface KeysFile {
  path: string
  keys: readonly string[]
}

type Passed = 'port' | 'host' | 'basePath' | 'maxBody' | 'maxStore' | 'getPet' | 'page' | 'maxConnections' | 'keepAlive'

/** What the executable is told: every setting with its value, undefined where it is off. */
export interface Config extends Pick<Options, Passed | 'controlHost'> {
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

/** How one setting is read. */
export interface Setting<T> extends Flag {
  variable: string
  default: T
  /** The text is never repeated as a whole. */
  isSecret?: true
  /** @throws UsageError whose message goes on behind the name and the text: "must be …". */
  parse: (text: string) => T
}

/** The table of settings, as `--help` shows it: flag, variable, meaning and, in brackets, default. */
export const TABLE: string = `\
  --port N                PORT                      port to listen on; 0 picks a free one (8080)
  --host ADDRESS          HOST                      address to listen on (127.0.0.1)
  --base-path PATH        PETSTORE_BASE_PATH        path that the operations stand under (/v1)
  --api-key KEY           PETSTORE_API_KEYS         a key that is valid; may be given again (the variable: with commas) (generated)
  --api-keys-file FILE    PETSTORE_API_KEYS_FILE    more keys, one a line, # starts a comment; read again on SIGHUP (none)
  --demo                  PETSTORE_DEMO             begin an empty store with a dozen animals (off)
  --seed FILE             PETSTORE_SEED             begin an empty store with this JSON array of NewPet (none)
  --snapshot FILE         PETSTORE_SNAPSHOT         the JSON file that keeps the animals (off)
  --max-body BYTES        PETSTORE_MAX_BODY         bytes that a request's body may have; k, m and g multiply (64k)
  --max-store BYTES       PETSTORE_MAX_STORE        bytes of animals' JSON that are kept, beyond which 507 (256m)
  --get-pet STATE         PETSTORE_GET_PET          deprecated, or gone: 410, to rehearse its removal (deprecated)
  --no-page               PETSTORE_PAGE             without the page at / (on)
  --max-connections N     PETSTORE_MAX_CONNECTIONS  open connections beyond which further ones are closed at once (10000)
  --log FORM              PETSTORE_LOG              text, json or off (text on a terminal, else json)
  --keep-alive SECONDS    PETSTORE_KEEP_ALIVE       how long an idle connection is kept: longer than the proxy's (75)
  --drain SECONDS         PETSTORE_DRAIN            how long requests in flight get after SIGTERM or SIGINT (8)
  --cors ORIGIN           PETSTORE_CORS             origin whose scripts may call, or * (off)
  --control-port N        PETSTORE_CONTROL_PORT     port of the test controls: reset, requests, faults (off)
  --control-host ADDRESS  PETSTORE_CONTROL_HOST     address that the test controls listen on (127.0.0.1)`

const ROWS = [...TABLE.matchAll(/^ {2}(\S+)(?: ([A-Z]+))? +([A-Z_]+) /gm)]

/** How the settings of the table are read. */
export const SETTINGS: { readonly [K in keyof Config]: Setting<Config[K]> } = {
  port: setting('--port', digits(RULES.port), 8080),
  host: setting('--host', word(RULES.host), DEFAULTS.host),
  basePath: setting('--base-path', word(RULES.basePath), DEFAULTS.basePath),
  apiKey: { ...setting<readonly string[]>('--api-key', checkKeys, []), isSecret: true, repeats: true },
  apiKeysFile: setting('--api-keys-file', (path) => ({ path, keys: readKeysFile(path) }), undefined),
  demo: { ...setting('--demo', bit, false), switch: '1' },
  seed: setting('--seed', readSeed, undefined),
  snapshot: setting('--snapshot', word(RULES.snapshot), undefined),
  maxBody: setting('--max-body', bytes(RULES.maxBody, '256m'), DEFAULTS.maxBody),
  maxStore: setting('--max-store', bytes(RULES.maxStore, '1024g'), DEFAULTS.maxStore),
  getPet: setting('--get-pet', word(RULES.getPet), DEFAULTS.getPet),
  page: { ...setting('--no-page', bit, DEFAULTS.page), switch: '0' },
  maxConnections: setting('--max-connections', digits(RULES.maxConnections), DEFAULTS.maxConnections),
  log: setting('--log', word(RULES.log), undefined),
  keepAlive: setting('--keep-alive', digits(RULES.keepAlive), DEFAULTS.keepAlive),
  drain: setting('--drain', digits(integer(0, 86_400)), 8),
  cors: setting('--cors', word(RULES.cors), undefined),
  controlPort: setting('--control-port', digits(RULES.controlPort), undefined),
  controlHost: setting('--control-host', word(RULES.controlHost), DEFAULTS.controlHost),
}

/** A setting of the table: its row is found by the flag. */
function setting<T>(flag: string, parse: (text: string) => T, absent: T): Setting<T> {
  const [, , value, variable = ''] = ROWS.find((row) => row[1] === flag) ?? []
  return { flag, ...(value !== undefined && { value }), variable, default: absent, parse }
}

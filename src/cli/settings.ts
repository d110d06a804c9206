import { parseArgs, type ParseArgsConfig } from 'node:util'
import { messageOf } from '../errors.ts'
import { DEFAULTS, RULES } from '../options.ts'
import { check, integer, misuse, type Rule } from '../rules.ts'
import type { InitialPet, StartOptions } from '../types.ts'
import { readKeys, readPets, toBoolean, toBytes, toList, toNumber } from './readers.ts'

/** What the flags and variables say. Times are in seconds. */
export interface Config extends Omit<StartOptions, 'pets' | 'store'> {
  port: number
  host: string
  apiKeysFile?: readonly string[] // the keys in it
  demo?: boolean
  seed?: readonly InitialPet[]
  store?: string // the name of the module
  keepAlive: number
  drain: number
  drainDelay: number
}

interface Setting {
  readonly group?: string // starts here in --help
  readonly flag?: string // by default max-body for maxBody
  readonly env?: string // the variable; by default PETSTORE_MAX_BODY for max-body
  readonly value?: string // its placeholder in --help; a switch has none
  readonly read?: (text: string) => unknown // unless the value is a text
  readonly rule?: Rule | undefined // unless it is that of the option of the same name
  readonly isList?: true // a repeated flag adds a value; otherwise the last one counts
  readonly default?: string // for --help, if it cannot be shown as it is
  readonly help: string
}

const FALLBACKS: Readonly<Record<string, unknown>> = {
  ...DEFAULTS,
  log: undefined, // depends on the terminal
  maxStore: undefined, // a default of the option, which must be left out with a store
  port: 8080,
  keepAlive: DEFAULTS.keepAlive / 1_000,
  drain: 8,
  drainDelay: 0,
}
const OPTION_RULES: Readonly<Record<string, Rule>> = RULES
const SECONDS = { value: 'SECONDS', read: toNumber, rule: integer(0, 86_400, ' seconds') }

/** Every setting: its flag, its variable, what it must be, and what --help says. */
const SETTINGS: Readonly<Record<keyof Config, Setting>> = {
  port: {
    group: 'Address',
    env: 'PORT',
    value: 'N',
    read: toNumber,
    help: 'port; 0 picks a free one',
  },
  host: { env: 'HOST', value: 'ADDRESS', help: 'address to listen on; :: is every one' },
  basePath: { value: 'PATH', help: 'path that the operations are under' },
  cors: {
    value: 'ORIGIN',
    read: toList,
    isList: true,
    help: 'origin whose scripts may call, or *; repeat for more (variable: commas)',
  },
  apiKeys: {
    group: 'Keys',
    flag: 'api-key',
    env: 'PETSTORE_API_KEYS',
    value: 'KEY',
    read: toList,
    isList: true,
    default: 'generated',
    help: 'valid key; repeat for more (variable: commas)',
  },
  apiKeysFile: {
    value: 'FILE',
    read: readKeys,
    help: 'more keys, one a line, # starts a comment; read again on SIGHUP',
  },
  demo: { group: 'Pets', help: 'a dozen animals in an empty store' },
  seed: { value: 'FILE', read: readPets, help: 'JSON array of pets for an empty store' },
  snapshot: { value: 'FILE', help: 'JSON file that keeps the pets; each create rewrites it' },
  store: {
    value: 'MODULE',
    rule: undefined,
    help: 'path or package whose default export opens a store of your own',
  },
  getPetState: {
    flag: 'get-pet',
    value: 'STATE',
    help: 'deprecated, or gone: getPet answers 410, to rehearse its removal',
  },
  maxBody: {
    group: 'Limits',
    value: 'BYTES',
    read: toBytes,
    default: '64k',
    help: 'bytes of a body; suffixes k, m and g',
  },
  maxStore: {
    value: 'BYTES',
    read: toBytes,
    default: "a quarter of the heap's limit, 256m at most",
    help: 'bytes that pets may take, each its JSON and 100 more',
  },
  maxConnections: {
    value: 'N',
    read: toNumber,
    help: 'connections, beyond which a new one is closed',
  },
  log: {
    group: 'Operation',
    value: 'FORMAT',
    default: 'text on a terminal, else json',
    help: 'text, json or off',
  },
  keepAlive: {
    ...SECONDS,
    rule: integer(1, 86_400, ' seconds'),
    help: "time that an idle connection is kept: longer than the proxy's",
  },
  drain: { ...SECONDS, help: 'time that requests in flight get at a stop' },
  drainDelay: {
    ...SECONDS,
    help: 'time after SIGTERM in which it goes on serving, and /readyz says 503',
  },
  strict: { group: 'Tests', help: 'unknown parameters and members are 400' },
  controlPort: {
    value: 'N',
    read: toNumber,
    help: 'port of the test controls, on the same host',
  },
}

const ROWS = Object.entries(SETTINGS).map(([key, setting]) => {
  const { flag = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) } = setting
  const env = `PETSTORE_${flag.replaceAll('-', '_').toUpperCase()}`
  return { key, env, fallback: FALLBACKS[key], rule: OPTION_RULES[key], ...setting, flag }
})
type Row = (typeof ROWS)[number]

function helpOf({ group, flag, value = '', env, help, fallback, default: shown }: Row): string {
  const title = group ? `\n${group}\n` : ''
  const named = `--${flag} ${value}`.padEnd(24)
  const otherwise = shown ?? (fallback === false ? 'off' : fallback) ?? 'off'
  return `${title}  ${named} ${env}\n      ${help} (${otherwise})\n`
}

export const HELP: string = `Usage: petstore-server [flag …]

Serves a pet store over HTTP and JSON. A flag wins over the variable next to it.
${ROWS.map(helpOf).join('')}
Commands
  --healthcheck    ask a server of this configuration for /readyz: exit 0 or 1
  -h, --help       print this and exit
  -v, --version    print the version and exit
`

/** The flags by name: a text, a list of texts, or true for a switch. */
export function readFlags(args: readonly string[]): Readonly<Record<string, unknown>> {
  const options: ParseArgsConfig['options'] = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
    healthcheck: { type: 'boolean' },
  }
  for (const { flag, value, isList = false } of ROWS) {
    options[flag] = { type: value === undefined ? 'boolean' : 'string', multiple: isList }
  }
  try {
    return parseArgs({ args: [...args], options }).values
  } catch (error) {
    throw misuse(`${messageOf(error).replaceAll('\n', ' ')} (see --help)`)
  }
}

/** Reads all settings, or those wanted: a health check must not read the files of the server. */
export function readConfig(
  flags: Readonly<Record<string, unknown>>,
  env: NodeJS.ProcessEnv,
  wanted: readonly string[] = Object.keys(SETTINGS),
): Config {
  const config: Record<string, unknown> = {}
  for (const row of ROWS.filter(({ key }) => wanted.includes(key))) {
    const flag = flags[row.flag]
    const variable = env[row.env] ?? ''
    // A list is joined with commas, as in its variable.
    if (flag !== undefined) config[row.key] = readSetting(row, `--${row.flag}`, String(flag))
    else if (variable !== '') config[row.key] = readSetting(row, row.env, variable)
    else if (row.fallback !== undefined) config[row.key] = row.fallback
  }
  return config as unknown as Config // each value follows the rule of its setting
}

/** @param source The flag or variable that has the text. */
function readSetting({ value, read, rule }: Row, source: string, text: string): unknown {
  const shown = rule?.isSecret ? '' : ` ${JSON.stringify(text)}`
  let setting: unknown
  try {
    setting = value === undefined ? toBoolean(text) : (read?.(text) ?? text)
  } catch (error) {
    throw misuse(`${source}${shown} ${messageOf(error)}`)
  }
  if (rule) check(source, setting, rule, JSON.stringify(text))
  return setting
}

const SERVICE_LINK = /_SERVICE_|_PORT/ // Kubernetes makes such variables for a Service

/** Variables that look like settings but are none. */
export function unknownVariables(env: NodeJS.ProcessEnv): string[] {
  const known = ROWS.map((row) => row.env)
  const ours = Object.keys(env).filter((name) => name.startsWith('PETSTORE_'))
  return ours.filter((name) => !known.includes(name) && !SERVICE_LINK.test(name))
}

import { parseArgs, type ParseArgsConfig } from 'node:util'
import { messageOf } from '../guards.ts'
import { DEFAULTS, RULES } from '../petstore/options.ts'
import { BOOLEAN, check, integer, misuse, type Rule } from '../rules.ts'
import { type Read, readInitialPets, readKeys } from './readers.ts'
import { toBoolean, toBytes, toDelay, toInteger, toList } from './readers.ts'
import { serviceLinksIn } from './variables.ts'
import type { NewPet, StartOptions } from '../types.ts'

type NoSetting = 'pets' | 'store' | 'maxRequests' | 'logStream' | 'unref'

export interface Config extends Omit<StartOptions, NoSetting> {
  port: number
  host: string
  apiKeysFile?: readonly string[] // the keys in it
  demo?: boolean
  seed?: readonly NewPet[]
  keepAlive: number // seconds, unlike StartOptions, and like the next two
  drain: number
  drainDelay: number
}

const DEFAULT_CONFIG: Config & Record<string, unknown> = {
  ...DEFAULTS,
  log: undefined, // depends on the terminal
  port: 8080,
  keepAlive: DEFAULTS.keepAlive / 1_000,
  drain: 8,
  drainDelay: 0,
}

const SECONDS = integer(0, 86_400, ' seconds')
const OPTION_RULES: Readonly<Record<string, Rule<unknown>>> = RULES

interface Setting {
  readonly group?: string // starts here in --help
  readonly name?: string // of the flag; by default max-body for maxBody
  readonly env?: string // the variable; by default PETSTORE_MAX_BODY
  readonly value?: string // its placeholder in --help; a switch has none
  readonly read?: Read // unless the value is a text
  readonly rule?: Rule<unknown> // unless it is that of the option of the same name
  readonly isList?: true // a repeated flag adds a value; otherwise the last one counts
  readonly default?: string // for --help, if it cannot be shown as it is
  readonly help: string
}

const SETTINGS: Readonly<Record<keyof Config, Setting>> = {
  port: {
    group: 'Address',
    value: 'N',
    read: toInteger,
    env: 'PORT',
    help: 'port; 0 picks a free one',
  },
  host: { value: 'ADDRESS', env: 'HOST', help: 'address to listen on' },
  basePath: { value: 'PATH', help: 'path that the operations are under' },
  cors: {
    value: 'ORIGIN',
    read: toList,
    isList: true,
    help: 'origin whose scripts may call, or *; repeat for more',
  },
  page: {
    name: 'no-page',
    read: toBoolean,
    env: 'PETSTORE_PAGE',
    default: 'page on',
    help: 'serve no page at / (variable: 0)',
  },
  apiKeys: {
    group: 'Keys',
    name: 'api-key',
    env: 'PETSTORE_API_KEYS',
    value: 'KEY',
    read: toList,
    isList: true,
    default: 'generated',
    help: 'valid key; repeat for more (variable: commas)',
  },
  apiKeysFile: {
    value: 'FILE',
    help: 'more keys, one a line, # starts a comment; SIGHUP rereads it',
    read: readKeys,
  },
  demo: {
    group: 'Pets',
    read: toBoolean,
    rule: BOOLEAN,
    help: 'fill an empty store with a dozen pets',
  },
  seed: { value: 'FILE', help: 'fill it with this JSON array of NewPet', read: readInitialPets },
  snapshot: { value: 'FILE', help: 'JSON file that keeps the pets' },
  getPetState: { name: 'get-pet', value: 'STATE', help: 'deprecated, or gone: answers 410' },
  maxBody: {
    group: 'Limits',
    value: 'BYTES',
    read: toBytes,
    default: `${DEFAULTS.maxBody / 1_024}k`,
    help: 'bytes in the body of a request; suffixes k, m and g',
  },
  maxStore: {
    value: 'BYTES',
    read: toBytes,
    default: 'a quarter of the heap, 256m at most',
    help: 'bytes of pets, 100 more for each',
  },
  maxConnections: {
    value: 'N',
    read: toInteger,
    default: '10000, fewer in a small heap',
    help: 'connections; the longest idle makes room',
  },
  log: {
    group: 'Operation',
    value: 'FORMAT',
    default: 'text on a terminal, else json',
    help: 'text, json or off',
  },
  keepAlive: {
    value: 'SECONDS',
    read: toInteger,
    rule: integer(1, 86_400, ' seconds'),
    help: "for an idle connection; longer than the proxy's",
  },
  drain: {
    value: 'SECONDS',
    read: toInteger,
    rule: SECONDS,
    help: 'for requests in flight after SIGTERM or SIGINT',
  },
  drainDelay: {
    value: 'SECONDS',
    read: toInteger,
    rule: SECONDS,
    help: 'before that, to serve on while /readyz is 503',
  },
  storePerKey: {
    group: 'Tests',
    read: toBoolean,
    help: 'own pets, faults and requests for each key; any key unless given',
  },
  delay: { value: 'MS', read: toDelay, help: 'milliseconds, or MIN-MAX, before each response' },
  strict: { read: toBoolean, help: 'refuse unknown and repeated parameters and members' },
  controlPort: {
    value: 'N',
    read: toInteger,
    help: 'port of the test controls: reset, requests, faults',
  },
  controlHost: { value: 'ADDRESS', help: 'address of the test controls' },
  teacherKey: { value: 'KEY', help: 'key with which the controls act on any store, or on all' },
}

const ROWS = Object.entries(SETTINGS).map(([key, setting]) => {
  const { name = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`) } = setting
  const env = `PETSTORE_${name.replaceAll('-', '_').toUpperCase()}`
  const fallback = DEFAULT_CONFIG[key]
  const isOff = fallback === undefined || fallback === false
  return { key, env, value: '', default: isOff ? 'off' : fallback, ...setting, name }
})
type Row = (typeof ROWS)[number]

/** The flags without their dashes, each with the placeholder of its value; a switch has none. */
export const FLAGS: readonly Readonly<{ name: string; value: string }>[] = ROWS
export const VARIABLES: readonly string[] = ROWS.map(({ env }) => env)

function helpOf(row: Row): string {
  const { group, name, value, env, help } = row
  const title = group ? `\n${group}\n` : ''
  const flag = `--${name} ${value}`
  return `${title}  ${flag.padEnd(24)} ${env}\n      ${help} (${row.default})\n`
}

export const HELP: string = `Usage: petstore-server [flag …]

Serves a pet store over HTTP and JSON. A flag wins over the variable next to it.
${ROWS.map(helpOf).join('')}
Commands
  --healthcheck    ask a server with this configuration: exit 0 if it is ready
  -h, --help       print this and exit
  -v, --version    print the version and exit
`

/** The flags of commands and settings by name: a text, a list of texts, or true for a switch. */
export function readFlags(args: readonly string[]): Readonly<Record<string, unknown>> {
  const options: ParseArgsConfig['options'] = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
    healthcheck: { type: 'boolean' },
  }
  for (const { name, value, isList = false } of ROWS) {
    options[name] = { type: value === '' ? 'boolean' : 'string', multiple: isList }
  }
  // parseArgs takes a value that begins with a dash only as `--flag=value`, so join them.
  const words: string[] = []
  for (const arg of args) {
    const last = words.at(-1) ?? ''
    const takesValue = last.startsWith('--') && options[last.slice(2)]?.type === 'string'
    if (takesValue && /^-[^-]/.test(arg)) words[words.length - 1] = `${last}=${arg}`
    else words.push(arg)
  }
  try {
    return parseArgs({ args: words, options }).values
  } catch (error) {
    const line = messageOf(error).replaceAll('\n', ' ')
    throw misuse(`${line} (see --help)`)
  }
}

/** Reads all settings, or those wanted: a health check must not read the files of the server. */
export function readConfig(
  flags: Readonly<Record<string, unknown>>,
  env: NodeJS.ProcessEnv,
  wanted: readonly string[] = Object.keys(SETTINGS),
): Config {
  const config = { ...DEFAULT_CONFIG }
  const links = serviceLinksIn(env)
  for (const row of ROWS.filter(({ key }) => wanted.includes(key))) {
    const flag = flags[row.name]
    const variable = links.includes(row.env) ? '' : (env[row.env] ?? '')
    if (flag !== undefined) {
      const value = row.name.startsWith('no-') ? !flag : flag
      config[row.key] = readSetting(row, `--${row.name}`, String(value)) // joins a list with commas
    } else if (variable !== '') {
      config[row.key] = readSetting(row, row.env, variable)
    }
  }
  return config
}

/** @param source The flag or variable that has the text. */
function readSetting(row: Row, source: string, text: string): unknown {
  const { key, read = String, rule = OPTION_RULES[key] } = row
  let value: unknown
  try {
    value = read(text)
  } catch (error) {
    throw misuse(`${source} ${JSON.stringify(text)} ${messageOf(error)}`)
  }
  if (rule) check(source, value, rule, JSON.stringify(text))
  return value
}

import {
  bytesParser,
  parseKeys,
  parser,
  parseSwitch,
  readFlags,
  readKeys,
  readSeed,
  readSetting,
  type Setting,
  toDelay,
  toInteger,
  toList,
  UsageError,
} from './command-line.ts'
import { DEFAULTS, hintFor, integer, RULES } from './options.ts'
import type { NewPet, StartOptions } from './types.ts'

export interface Config extends Omit<StartOptions, 'apiKeys' | 'pets' | 'journal' | 'logStream'> {
  port: number
  host: string
  apiKey?: readonly string[]
  apiKeysFile?: { path: string; keys: readonly string[] }
  demo?: readonly NewPet[]
  seed?: readonly NewPet[]
  drain: number // seconds, like drainDelay
  drainDelay: number
}

const parseKeepAlive = parser(integer(1, 86_400), toInteger) // in seconds, as flags are
const parseSeconds = parser(integer(0, 86_400), toInteger)

// Options that are not here have a default in the library.
const FALLBACKS: Config = { port: 8080, host: DEFAULTS.host, drain: 8, drainDelay: 0 }

const SETTINGS: { readonly [K in keyof Config]-?: Setting<NonNullable<Config[K]>> } = {
  port: {
    group: 'Address',
    flag: '--port N',
    env: 'PORT',
    help: 'port to listen on; 0 picks a free one',
    parse: parser(RULES.port, toInteger),
  },
  host: {
    flag: '--host ADDRESS',
    env: 'HOST',
    help: 'address to listen on',
    parse: parser(RULES.host),
  },
  basePath: {
    flag: '--base-path PATH',
    help: 'path that the operations are under',
    parse: parser(RULES.basePath),
  },
  cors: {
    flag: '--cors ORIGIN',
    isList: true,
    help: 'origin whose scripts may call, or *; repeat for more',
    parse: parser(RULES.cors, toList),
  },
  page: {
    flag: '--no-page',
    env: 'PETSTORE_PAGE',
    help: 'serve no page at /',
    parse: parseSwitch,
  },
  apiKey: {
    group: 'Keys',
    flag: '--api-key KEY',
    env: 'PETSTORE_API_KEYS',
    fallback: 'generated',
    help: 'valid key; repeat for more (variable: commas)',
    isList: true,
    isSecret: true,
    parse: parseKeys,
  },
  apiKeysFile: {
    flag: '--api-keys-file FILE',
    help: 'more keys, one a line, # starts a comment; SIGHUP rereads it',
    parse: (path) => ({ path, keys: readKeys(path) }),
  },
  demo: {
    group: 'Pets',
    flag: '--demo',
    fallback: false,
    help: 'fill an empty store with a dozen pets',
    parse: (text) => (parseSwitch(text) ? readSeed(`${import.meta.dirname}/demo.json`) : []),
  },
  seed: {
    flag: '--seed FILE',
    help: 'fill an empty store with this JSON array of NewPet',
    parse: readSeed,
  },
  snapshot: {
    flag: '--snapshot FILE',
    help: 'JSON file that keeps the pets',
    parse: parser(RULES.snapshot),
  },
  getPetState: {
    flag: '--get-pet STATE',
    help: 'deprecated, or gone: 410, to rehearse its removal',
    parse: parser(RULES.getPetState),
  },
  maxBody: {
    group: 'Limits',
    flag: '--max-body BYTES',
    fallback: `${DEFAULTS.maxBody / 1_024}k`,
    help: 'bytes in the body of a request; suffixes k, m and g',
    parse: bytesParser(RULES.maxBody),
  },
  maxStore: {
    flag: '--max-store BYTES',
    fallback: 'a quarter of the heap, 256m at most',
    help: 'bytes of pets, 100 more for each',
    parse: bytesParser(RULES.maxStore),
  },
  maxConnections: {
    flag: '--max-connections N',
    help: 'connections; beyond them the longest idle one is closed',
    parse: parser(RULES.maxConnections, toInteger),
  },
  log: {
    group: 'Operation',
    flag: '--log FORMAT',
    fallback: 'text on a terminal, else json',
    help: 'text, json or off',
    parse: parser(RULES.log),
  },
  keepAlive: {
    flag: '--keep-alive SECONDS',
    fallback: DEFAULTS.keepAlive / 1_000,
    help: "how long an idle connection is kept: longer than the proxy's",
    parse: (text) => 1_000 * parseKeepAlive(text),
  },
  drain: {
    flag: '--drain SECONDS',
    help: 'time for requests in flight after SIGTERM or SIGINT',
    parse: parseSeconds,
  },
  drainDelay: {
    flag: '--drain-delay SECONDS',
    help: 'time before that to serve on, while /readyz is 503',
    parse: parseSeconds,
  },
  storePerKey: {
    group: 'Tests',
    flag: '--store-per-key',
    help: 'own pets, faults and requests for each key; any key unless given',
    parse: parseSwitch,
  },
  delay: {
    flag: '--delay MS',
    help: 'milliseconds, or MIN-MAX, before the response of each operation',
    parse: parser(RULES.delay, toDelay),
  },
  strict: {
    flag: '--strict',
    help: 'refuse unknown and repeated parameters and members',
    parse: parseSwitch,
  },
  controlPort: {
    flag: '--control-port N',
    help: 'port of the test controls: reset, requests, faults',
    parse: parser(RULES.controlPort, toInteger),
  },
  controlHost: {
    flag: '--control-host ADDRESS',
    help: 'address of the test controls',
    parse: parser(RULES.controlHost),
  },
}

const SHOWN: Readonly<Record<string, unknown>> = { ...DEFAULTS, ...FALLBACKS }

const ROWS = Object.entries<Setting<unknown>>(SETTINGS).map(([key, setting]) => {
  const name = setting.flag.replace(/^--| .*/g, '')
  const env = `PETSTORE_${name.replaceAll('-', '_').toUpperCase()}`
  return { key, name, env, fallback: SHOWN[key] ?? 'off', ...setting }
})

function helpOf({ group, flag, env, help, fallback }: (typeof ROWS)[number]): string {
  const title = group === undefined ? '' : `\n${group}\n`
  return `${title}  ${flag.padEnd(24)} ${env}\n      ${help} (${fallback})\n`
}

export const HELP: string = `Usage: petstore-server [flag …]

Serves a pet store over HTTP and JSON. A flag wins over the variable next to it.
${ROWS.map(helpOf).join('')}
Commands
  --healthcheck    ask a server with this configuration: exit 0 if it is ready
  -h, --help       print this and exit
  -v, --version    print the version and exit

Examples
  petstore-server --demo
  petstore-server --host 0.0.0.0 --api-keys-file keys --snapshot pets.json
`

const COMMANDS = ['help', 'version', 'healthcheck'] as const

interface Command {
  readonly action: 'serve' | (typeof COMMANDS)[number]
  readonly config: Config
  readonly warnings: readonly string[]
}

export function readCommand(args: readonly string[], env: NodeJS.ProcessEnv): Command {
  const flags = readFlags(args, ROWS)
  const action = COMMANDS.find((name) => flags[name]) ?? 'serve'
  const config: Config & Record<string, unknown> = { ...FALLBACKS }
  for (const row of ROWS) {
    // A health check must not read the files of the server that it asks.
    const isAddress = row.key === 'host' || row.key === 'port'
    const isNeeded = action === 'serve' || (action === 'healthcheck' && isAddress)
    const value = isNeeded ? readSetting(row, flags[row.name], env[row.env]) : undefined
    if (value !== undefined) config[row.key] = value
  }
  if (config.storePerKey && config.snapshot !== undefined)
    throw new UsageError('--store-per-key must be without --snapshot; see --help')
  const known = ROWS.map((row) => row.env)
  const isUnknown = (name: string) => name.startsWith('PETSTORE_') && !known.includes(name)
  const warn = (name: string) => `unknown variable ${name}${hintFor(name, known)}; see --help`
  return { action, config, warnings: Object.keys(env).filter(isUnknown).map(warn) }
}

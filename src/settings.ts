import {
  parser,
  readFlags,
  readKeys,
  readSeed,
  readSetting,
  type Setting,
  UsageError,
} from './command-line.ts'
import { DEFAULTS, hintFor, integer, type Rule, RULES } from './options.ts'
import type { NewPet, StartOptions } from './types.ts'

type NotSet = 'pets' | 'store' | 'journal' | 'logStream'
export interface Config extends Omit<StartOptions, NotSet> {
  port: number
  host: string
  apiKeysFile?: { path: string; keys: readonly string[] }
  demo: boolean
  seed?: readonly NewPet[]
  keepAlive: number // seconds, like the next two
  drain: number
  drainDelay: number
}

// What is not here has its default in the library, or none.
const FALLBACKS: Config = {
  port: 8080,
  host: DEFAULTS.host,
  demo: false,
  keepAlive: DEFAULTS.keepAlive / 1_000,
  drain: 8,
  drainDelay: 0,
}

const FLAG_RULES: Readonly<Record<string, Rule<unknown>>> = {
  ...RULES,
  keepAlive: integer(1, 86_400),
  drain: integer(0, 86_400),
  drainDelay: integer(0, 86_400),
}

// `maxBody` is --max-body and PETSTORE_MAX_BODY, unless its row says otherwise.
const SETTINGS: Readonly<Record<keyof Config, Setting>> = {
  port: { group: 'Address', value: 'N', env: 'PORT', help: 'port; 0 picks a free one' },
  host: { value: 'ADDRESS', env: 'HOST', help: 'address to listen on' },
  basePath: { value: 'PATH', help: 'path that the operations are under' },
  cors: {
    value: 'ORIGIN',
    isList: true,
    help: 'origin whose scripts may call, or *; repeat for more',
  },
  page: { name: 'no-page', isNegated: true, help: 'serve no page at /' },
  apiKeys: {
    group: 'Keys',
    name: 'api-key',
    value: 'KEY',
    fallback: 'generated',
    isList: true,
    isSecret: true,
    help: 'valid key; repeat for more (variable: commas)',
  },
  apiKeysFile: {
    value: 'FILE',
    help: 'more keys, one a line, # starts a comment; SIGHUP rereads it',
    read: (path) => ({ path, keys: readKeys(path) }),
  },
  demo: { group: 'Pets', help: 'fill an empty store with a dozen pets' },
  seed: { value: 'FILE', help: 'fill it with this JSON array of NewPet', read: readSeed },
  snapshot: { value: 'FILE', help: 'JSON file that keeps the pets' },
  getPetState: {
    name: 'get-pet',
    value: 'STATE',
    env: 'PETSTORE_GET_PET',
    help: 'deprecated, or gone: answers 410',
  },
  maxBody: {
    group: 'Limits',
    value: 'BYTES',
    fallback: `${DEFAULTS.maxBody / 1_024}k`,
    help: 'bytes in the body of a request; suffixes k, m and g',
  },
  maxStore: {
    value: 'BYTES',
    fallback: 'a quarter of the heap, 256m at most',
    help: 'bytes of pets, 100 more for each',
  },
  maxConnections: { value: 'N', help: 'connections; beyond, the longest idle one is closed' },
  log: {
    group: 'Operation',
    value: 'FORMAT',
    fallback: 'text on a terminal, else json',
    help: 'text, json or off',
  },
  keepAlive: { value: 'SECONDS', help: "for an idle connection; longer than the proxy's" },
  drain: { value: 'SECONDS', help: 'for requests in flight after SIGTERM or SIGINT' },
  drainDelay: { value: 'SECONDS', help: 'before that, to serve on while /readyz is 503' },
  storePerKey: {
    group: 'Tests',
    help: 'own pets, faults and requests for each key; any key unless given',
  },
  delay: { value: 'MS', help: 'milliseconds, or MIN-MAX, before each response' },
  strict: { help: 'refuse unknown and repeated parameters and members' },
  controlPort: { value: 'N', help: 'port of the test controls: reset, requests, faults' },
  controlHost: { value: 'ADDRESS', help: 'address of the test controls' },
}

const SHOWN: Readonly<Record<string, unknown>> = { ...DEFAULTS, ...FALLBACKS }

const ROWS = Object.entries(SETTINGS).map(([key, setting]) => {
  const name = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  const env = `PETSTORE_${name.replaceAll('-', '_').toUpperCase()}`
  const parse = parser(setting, FLAG_RULES[key])
  return { key, name, env, fallback: SHOWN[key] ?? 'off', parse, ...setting }
})

function helpOf({ group, name, value = '', env, help, fallback }: (typeof ROWS)[number]): string {
  const title = group === undefined ? '' : `\n${group}\n`
  const flag = `--${name} ${value}`
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

import { type Flag, readFlags } from './flags.ts'
import { messageOf } from './pets/errors.ts'
import { type Config, SETTINGS, TABLE } from './settings.ts'
import { UsageError } from './values.ts'

const FLAGS: readonly Flag[] = [
  ...Object.values(SETTINGS),
  { flag: '--healthcheck' },
  { flag: '--help' },
  { flag: '--version' },
]

/** Asks for no server, but whether one is ready there. */
export interface Healthcheck extends Pick<Config, 'host' | 'port'> {
  isHealthcheck: true
}

/**
 * Reads the settings from flags and, where no flag is given, from the environment; an empty variable counts as none.
 *
 * @returns The settings; or which text was asked for instead.
 * @throws UsageError that names the flag or variable, the value and what it must be.
 */
export function readConfig(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Config | Healthcheck | 'help' | 'version' {
  const flags = readFlags(args, FLAGS)
  if (flags.has('--help')) return 'help'
  if (flags.has('--version')) return 'version'

  function value<K extends keyof Config>(key: K): Config[K] {
    const { flag, variable, parse, isSecret, default: absent } = SETTINGS[key]
    const given = flags.get(flag)
    const text = given ?? env[variable] ?? ''
    if (given === undefined && text === '') return absent
    try {
      return parse(text)
    } catch (error) {
      const name = given === undefined ? variable : flag
      throw new UsageError(
        isSecret ? `${name} ${messageOf(error)}` : `${name} ${JSON.stringify(text)} ${messageOf(error)}`,
      )
    }
  }

  // Whoever asks a server whether it is well needs its address, and not the files that it began with.
  if (flags.has('--healthcheck')) return { host: value('host'), port: value('port'), isHealthcheck: true }
  return {
    port: value('port'),
    host: value('host'),
    basePath: value('basePath'),
    apiKey: value('apiKey'),
    apiKeysFile: value('apiKeysFile'),
    demo: value('demo'),
    seed: value('seed'),
    snapshot: value('snapshot'),
    maxBody: value('maxBody'),
    maxStore: value('maxStore'),
    getPet: value('getPet'),
    page: value('page'),
    maxConnections: value('maxConnections'),
    log: value('log'),
    keepAlive: value('keepAlive'),
    drain: value('drain'),
    cors: value('cors'),
    controlPort: value('controlPort'),
    controlHost: value('controlHost'),
  }
}

/** The text of `--help`. */
export const HELP: string = `Usage: petstore [flag …]

Serves a pet store over HTTP and JSON. A flag wins over its variable.

  flag                    variable                  meaning (default)
${TABLE}
  --healthcheck           ask a server with this configuration whether it is ready; exit 0 or 1
  --help                  print this and exit
  --version               print the version and exit
`

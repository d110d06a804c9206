import { parseArgs, type ParseArgsConfig } from 'node:util'
import { codedError, messageOf } from '../errors.ts'
import { type Option, OPTIONS, type Settings } from '../options.ts'
import { readText } from '../rules.ts'

/** The options that have a flag. */
const ROWS = Object.entries<Option>(OPTIONS).flatMap(([key, option]) => {
  if (option.flag === undefined) return []
  const [flag = '', value] = option.flag.slice(2).split(' ')
  return [{ ...option, key, flag, value, variable: option.variable ?? '' }]
})

const FLAGS = ROWS.map(({ flag, value = '', variable, help }) => {
  return `  ${`--${flag} ${value}`.padEnd(24)} ${variable}\n      ${help}\n`
})

export const HELP: string = `Usage: petstore-server [flag …]

Serves a pet store over HTTP and JSON. A flag wins over the variable next to it.

${FLAGS.join('')}
  --healthcheck    ask a server of this configuration for /readyz: exit 0 or 1
  -h, --help       print this and exit
  -v, --version    print the version and exit
`

/** The flags by name: a text, a list of texts, or true for a switch. */
export function parseFlags(args: readonly string[]): Readonly<Record<string, unknown>> {
  const options: ParseArgsConfig['options'] = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean', short: 'v' },
    healthcheck: { type: 'boolean' },
  }
  for (const { flag, value, isList = false } of ROWS) {
    options[flag] = { type: value === undefined ? 'boolean' : 'string', multiple: isList }
  }
  try {
    const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
    if (positionals.length > 0) throw new Error('every value must follow its flag')
    return values
  } catch (error) {
    // Without node's advice on positional arguments, which we do not take.
    const [message = ''] = messageOf(error).split('. To specify a positional')
    throw codedError('invalid_option', `${message.replaceAll('\n', ' ')} (see --help)`)
  }
}

/**
 * What flags and variables say. What they leave out has the default of startPetstore.
 *
 * @param wanted A health check must not read the files of the server.
 */
export function readSettings(
  flags: Readonly<Record<string, unknown>>,
  env: NodeJS.ProcessEnv,
  wanted: readonly string[] = Object.keys(OPTIONS),
): Settings {
  const rows = ROWS.filter(({ key }) => wanted.includes(key))
  const entries = rows.map(({ key, flag, variable, rule, flagDefault }) => {
    const given = flags[flag]
    const text = env[variable] ?? ''
    // A list becomes a text with commas.
    if (given !== undefined) return [key, readText(`--${flag}`, String(given), rule)]
    if (text !== '') return [key, readText(variable, text, rule)]
    return [key, flagDefault]
  })
  return Object.fromEntries(entries) // each value follows the rule of its row
}

/** Variables that look like options but are not. Kubernetes makes some for a Service. */
export function unknownVariables(env: NodeJS.ProcessEnv): string[] {
  const known = ROWS.map(({ variable }) => variable)
  const ours = Object.entries(env).filter(([name]) => name.startsWith('PETSTORE_'))
  const unknown = ours.filter(([name, value = '']) => {
    const isOfService = /_SERVICE_|_PORT_/.test(name) || value.startsWith('tcp://')
    return value !== '' && !known.includes(name) && !isOfService
  })
  return unknown.map(([name]) => name)
}

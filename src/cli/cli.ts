import { once } from 'node:events'
import { watchFile } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL, URL } from 'node:url'
import { now } from '../clock.ts'
import { codeOf, messageOf } from '../errors.ts'
import { readKeys } from '../http/keys.ts'
import type { Log } from '../http/log.ts'
import { urlOf } from '../http/server.ts'
import { OPTIONS, readOptions, readSeed, type Settings } from '../options.ts'
import type { Store } from '../pets/store.ts'
import { launch, type Launched, VERSION } from '../petstore.ts'
import { check, isRecord } from '../rules.ts'
import type { Options, Petstore } from '../types.ts'
import { HELP, parseFlags, readSettings, unknownVariables } from './flags.ts'

const DEMO = `${__dirname}/demo.json`
const KEYS_INTERVAL = 1_000 // milliseconds between two looks at the file of keys

/** Runs the executable with the arguments after the script; resolves to the exit status. */
export async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { stdout, stderr } = process
  // A closed pipe must not crash the server.
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  const isHealthcheck = args.includes('--healthcheck')
  try {
    const flags = parseFlags(args)
    if (flags['help']) stdout.write(HELP)
    else if (flags['version']) stdout.write(`${VERSION}\n`)
    else if (isHealthcheck) await checkReadiness(readSettings(flags, env, ['host', 'port']))
    else return await run(readSettings(flags, env), unknownVariables(env))
    return 0
  } catch (error) {
    stderr.write(`petstore-server: ${messageOf(error)}\n`)
    return codeOf(error) === 'invalid_option' && !isHealthcheck ? 2 : 1
  }
}

/** Serves until a signal comes, and stops. Resolves to the exit status. */
async function run(settings: Settings, unknown: readonly string[]): Promise<number> {
  // First of all: the kernel drops signals for which process 1 of a container has no handler.
  let onSignal: (signal: string) => void = () => process.exit(0) // nothing is served yet
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => onSignal(signal))
  const options = await optionsOf(settings)
  // Only the controls show recorded requests, and inject faults.
  const isFake = options.controlPort !== undefined
  const launched = await launch(options, { isFake }).catch(explainPort)
  // At once: from the next turn of the event loop on, requests may be in flight.
  const stopSignal = new Promise<string>((resolve) => {
    onSignal = resolve
  })
  const { petstore, log } = launched
  for (const variable of unknown) {
    log.line('warn', { message: `unknown variable ${variable} is ignored: see --help` })
  }
  watchKeys(petstore, log, settings)
  if (log.format !== 'json') {
    await log.flush() // the greeting comes after the first line
    greet(petstore, options.apiKeys === undefined)
  }
  const signal = await stopSignal
  onSignal = () => process.exit(1)
  return stop(launched, settings, signal)
}

async function optionsOf(settings: Settings): Promise<Options> {
  // startPetstore does not take these.
  const { apiKeysFile, demo, storeModule, drain, drainDelay, ...options } = settings
  const apiKeys = keysOf(settings)
  return readOptions({
    ...options,
    apiKeys: apiKeys.length > 0 ? apiKeys : undefined, // then one is generated
    pets: options.pets ?? (demo ? readSeed(DEMO) : undefined),
    store: storeModule === undefined ? undefined : await importStore(storeModule),
  })
}

function explainPort(error: unknown): never {
  if (codeOf(error) !== 'EADDRINUSE') throw error
  throw new Error(`${messageOf(error)}: choose another --port or --control-port`)
}

/** The keys of the flags or the variable, and those of the file. */
function keysOf({ apiKeys = [], apiKeysFile }: Settings): string[] {
  return apiKeysFile === undefined ? [...apiKeys] : [...apiKeys, ...readKeys(apiKeysFile)]
}

/** Opens the store of a module. */
async function importStore(path: string): Promise<Store> {
  try {
    const { href } = pathToFileURL(resolve(path))
    const module: { default?: unknown } = await import(href)
    // TypeScript compiles a default export to a member of the exports of CommonJS.
    const { default: found } = module
    const open = isRecord(found) ? found['default'] : found
    if (typeof open !== 'function') throw new Error('its default export must be a function')
    const store: Store = await open()
    check('what it opens', store, OPTIONS.store.rule)
    return store
  } catch (error) {
    const [why] = messageOf(error).split('\n') // node's next lines name its own files
    throw new Error(`--store ${path}: ${why}`)
  }
}

/** Reads the file of keys again when it changes. */
function watchKeys({ replaceKeys }: Petstore, log: Log, settings: Settings): void {
  const { apiKeysFile } = settings
  if (apiKeysFile === undefined) return
  const read = (): void => {
    try {
      const keys = keysOf(settings)
      replaceKeys(keys)
      log.line('info', { message: `${apiKeysFile} was read; valid keys: ${keys.length}` })
    } catch (error) {
      const message = `the keys stay as they were: ${apiKeysFile}: ${messageOf(error)}`
      log.line('error', { message })
    }
  }
  watchFile(apiKeysFile, { interval: KEYS_INTERVAL, persistent: false }, read)
  read() // it may have changed since the start began
}

/** What to do next, for people. */
function greet({ url, controlUrl, apiKey }: Petstore, isGenerated: boolean): void {
  const key = isGenerated ? apiKey : '$KEY'
  const page = new URL(isGenerated ? `/#key=${key}` : '/', url)
  const controls = controlUrl === undefined ? '' : `  Test controls: ${controlUrl}\n`
  process.stderr.write(`
  Page: ${page}
  Base address: ${url}
${controls}  API key: ${isGenerated ? key : 'one of yours, which the page asks for: export KEY=…'}

  curl -i -H "Authorization: Bearer ${key}" '${url}/pets'

  Ctrl-C stops the server.

`)
}

/** Drains and closes the petstore. Resolves to the exit status. */
async function stop(launched: Launched, settings: Settings, signal: string): Promise<number> {
  const { petstore, log, server, state } = launched
  const { drain, drainDelay } = settings
  const started = now()
  const delay = signal === 'SIGTERM' ? drainDelay : 0
  const serves = delay > 0 ? `serves for ${delay / 1_000} s more, then ` : ''
  const waits = `${serves}waits up to ${drain / 1_000} s for requests in flight`
  const message = `${signal} received: ${waits}; another signal ends it at once`
  log.line('info', { message, ...server.load })
  state.isReady = false
  await sleep(delay)
  let problem = ''
  try {
    const cutOff = await petstore.close(drain)
    if (cutOff > 0) problem = `requests in flight that were cut off: ${cutOff}`
  } catch (error) {
    problem = messageOf(error)
  }
  if (problem !== '') log.line('error', { message: problem })
  log.line('info', { message: `stopped after ${((now() - started) / 1_000).toFixed(1)} s` })
  await log.flush()
  return problem === '' ? 0 : 1
}

async function checkReadiness({ host, port }: Settings): Promise<void> {
  const options = readOptions({ host, port })
  const url = `${urlOf({ address: options.host, port: options.port })}/readyz`
  try {
    const signal = AbortSignal.timeout(3_000)
    const request = get(url, { signal, agent: false }) // not fetch, which refuses some ports
    const [response]: IncomingMessage[] = await once(request, 'response')
    if (response?.statusCode !== 200) throw new Error(`status ${response?.statusCode}`)
  } catch (error) {
    throw new Error(`not ready: ${url}: ${messageOf(error)}`)
  }
}

import { EventEmitter, on, once } from 'node:events'
import { existsSync } from 'node:fs'
import { get, type IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { clearTimeout, now, setTimeout, sleep } from '../clock.ts'
import { hasCode, messageOf } from '../errors.ts'
import { reachableAddress, urlOf } from '../http/addresses.ts'
import { RULES } from '../options.ts'
import type { Store } from '../pets/store.ts'
import { type Launched, RunningPetstore } from '../petstore.ts'
import { check } from '../rules.ts'
import type { StartOptions } from '../types.ts'
import { greeting, logStart, VERSION } from './greeting.ts'
import { readPets } from './readers.ts'
import { type Config, HELP, readConfig, readFlags, unknownVariables } from './settings.ts'

const STORE_TIMEOUT = 2_000 // milliseconds that a store has to close: its disk may hang

/** Runs the executable with the arguments after the script; resolves to the exit status. */
export async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const { stdout, stderr } = process
  // A closed pipe must not crash the server.
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  try {
    const flags = readFlags(args)
    for (const name of unknownVariables(env)) {
      stderr.write(`petstore-server: warning: unknown variable ${name}; see --help\n`)
    }
    if (flags['help']) stdout.write(HELP)
    else if (flags['version']) stdout.write(`${VERSION}\n`)
    else if (flags['healthcheck']) await checkReadiness(readConfig(flags, env, ['host', 'port']))
    else await serve((wanted) => readConfig(flags, env, wanted))
    return 0
  } catch (error) {
    stderr.write(`petstore-server: ${messageOf(error)}\n`)
    return hasCode(error, 'invalid_option') ? 2 : 1
  }
}

type ReadConfig = (wanted?: readonly (keyof Config)[]) => Config

async function serve(read: ReadConfig): Promise<void> {
  const { stdout, stderr } = process
  const isTTY = stdout.isTTY === true
  // First of all: the kernel drops signals for which process 1 of a container has no handler.
  const nextSignal = signals(isTTY ? ['SIGINT', 'SIGTERM', 'SIGHUP'] : ['SIGINT', 'SIGTERM'])
  const nextHangup = signals(isTTY ? [] : ['SIGHUP'])
  const config = read()
  const log = config.log ?? (isTTY ? 'text' : 'json')
  const stopping = nextSignal()
  const launched = await Promise.race([launch({ ...config, log }), signalAtStart(stopping)])
  const hasGeneratedKey = keysOf(config).length === 0
  logStart(launched, hasGeneratedKey)
  void rereadKeys(launched, read, nextHangup)
  // Greet last: callers may signal us once the URL is printed.
  const screen = log === 'json' ? stderr : stdout
  screen.write(greeting(launched, hasGeneratedKey, isTTY))
  const stopped = stopping.then((signal) => stop(launched, config, signal, nextSignal()))
  try {
    await Promise.race([stopped, crash()])
  } catch (error) {
    launched.log.event('error', messageOf(error))
    throw error
  } finally {
    await launched.log.flush()
  }
}

/** A function that resolves to the next signal's name, even if that came before the call. */
function signals(names: readonly string[]): () => Promise<string> {
  const received = new EventEmitter()
  const queue = on(received, 'signal')
  for (const name of names) process.on(name, () => received.emit('signal', name))
  return async () => String((await queue.next()).value[0])
}

async function signalAtStart(stopping: Promise<string>): Promise<never> {
  throw new Error(`${await stopping} received before the start was complete`)
}

async function crash(): Promise<never> {
  const [error] = await once(process, 'uncaughtException')
  throw new Error(`uncaught: ${inspect(error)}`)
}

/** The keys of the flags or the variable, and those of the file. */
function keysOf({ apiKeys = [], apiKeysFile = [] }: Config): string[] {
  return [...apiKeys, ...apiKeysFile]
}

async function launch(config: Config): Promise<Launched> {
  const { apiKeysFile, demo, seed, store, drain, drainDelay, ...options } = config
  const keys = keysOf(config)
  const given: StartOptions = {
    ...options,
    apiKeys: keys.length > 0 ? keys : undefined, // then one is generated
    pets: seed ?? (demo ? readPets(`${import.meta.dirname}/demo.json`) : []),
    store: store === undefined ? undefined : await importStore(store),
    keepAlive: options.keepAlive * 1_000,
  }
  // Only the controls inject faults, and show recorded requests.
  const purpose = options.controlPort === undefined ? 'server' : 'fake'
  try {
    return await RunningPetstore.launch(given, purpose)
  } catch (error) {
    if (!hasCode(error, 'EADDRINUSE')) throw error
    throw new Error(`${messageOf(error)}: choose another --port or --control-port`)
  }
}

/** Opens the store of a module: a path from the working directory, or a package found there. */
async function importStore(name: string): Promise<Store> {
  const path = resolve(name)
  try {
    const file = existsSync(path) ? path : createRequire(`${resolve()}/`).resolve(name)
    const module: { default?: unknown } = await import(pathToFileURL(file).href)
    if (typeof module.default !== 'function') throw new Error('its default export is no function')
    const store = await module.default()
    check('what it opens', store, RULES.store)
    return store
  } catch (cause) {
    const [why] = messageOf(cause).split('\n') // node's next lines name its own files
    throw new Error(`--store ${name}: ${why}`, { cause })
  }
}

/** Drains and closes the petstore. The second signal ends both waits. */
async function stop(
  { petstore, server, log, announceStop }: Launched,
  { drain, drainDelay }: Config,
  signal: string,
  second: Promise<string>,
): Promise<void> {
  const started = now()
  const { requests, connections } = server.load
  const delay = signal === 'SIGTERM' ? drainDelay : 0
  const waits = `${delay > 0 ? `serves for ${delay} s more, then ` : ''}waits up to ${drain} s`
  const open = `requests in flight: ${requests}, open connections: ${connections}`
  log.event('info', `${signal} received: ${waits}; another signal stops at once; ${open}`)
  announceStop()
  await Promise.race([sleep(delay * 1_000), second])
  second.then(() => petstore.close(0)).catch(() => {}) // the next line reports a failure
  const cutOff = await new Promise<number>((resolve, reject) => {
    const tooLate = (): void => reject(new Error('the store did not close in time'))
    const timer = setTimeout(tooLate, drain * 1_000 + STORE_TIMEOUT)
    void petstore
      .close(drain * 1_000)
      .finally(() => clearTimeout(timer))
      .then(resolve, reject)
  })
  log.event('info', `stopped after ${((now() - started) / 1_000).toFixed(1)} s`)
  if (cutOff > 0) throw new Error(`requests in flight that were cut off: ${cutOff}`)
}

async function checkReadiness({ host, port }: Config): Promise<void> {
  const url = `${urlOf(reachableAddress(host), port)}/readyz`
  try {
    const signal = AbortSignal.timeout(3_000)
    const request = get(url, { signal, agent: false }) // not fetch, which refuses some ports
    const [response]: IncomingMessage[] = await once(request, 'response')
    if (response?.statusCode !== 200) throw new Error(`status ${response?.statusCode}`)
  } catch (error) {
    throw new Error(`not ready: ${url}: ${messageOf(error)}`)
  }
}

/** At each SIGHUP, reads the file of keys again. */
async function rereadKeys(
  { petstore, keys, log }: Launched,
  read: ReadConfig,
  nextHangup: () => Promise<string>,
): Promise<void> {
  for (;;) {
    await nextHangup()
    try {
      const config = read(['apiKeys', 'apiKeysFile'])
      if (!config.apiKeysFile) {
        log.event('info', 'SIGHUP received: there is no file of API keys')
        continue
      }
      petstore.replaceKeys(keysOf(config))
      log.event('info', `the file of API keys was read again; valid keys: ${keys.size}`)
    } catch (error) {
      log.event('error', `the API keys stay as they were: ${messageOf(error)}`)
    }
  }
}

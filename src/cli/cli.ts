import { EventEmitter, on, once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { Writable } from 'node:stream'
import { setImmediate as nextTurn, setTimeout as wait } from 'node:timers/promises'
import { inspect } from 'node:util'
import { hasCode, hasMembers, messageOf } from '../guards.ts'
import { reachableUrl, urlOf } from '../http/addresses.ts'
import { launch, type Launched } from '../petstore/launch.ts'
import { greeting, logStart, VERSION } from './greeting.ts'
import { logEachMinute } from './minute.ts'
import { checkNpm } from './npm.ts'
import { readInitialPets } from './readers.ts'
import { type Config, HELP, readConfig, readFlags, VARIABLES } from './settings.ts'
import { strangeVariables } from './variables.ts'

// One bundle is built for the executable and for the package.
export { connectPetstore } from '../petstore/connect.ts'
export { createPetstore, startPetstore } from '../petstore/launch.ts'
export { fetchClasses } from '../runtime.ts'

/** The parts of `process` that the executable uses. Its signals are events. */
export interface Process extends EventEmitter {
  readonly stdout: Writable & { isTTY?: boolean }
  readonly stderr: Writable
}

/** Runs the executable, and ends the process. No top-level await: it is built as CommonJS. */
export function run(): void {
  void main(process.argv.slice(2), process.env, process).then((status) => process.exit(status))
}

/** Runs the executable with the arguments after the script; resolves to the exit status. */
export async function main(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  proc: Process,
): Promise<number> {
  const { stdout, stderr } = proc
  // A closed pipe must not crash the server.
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  try {
    checkNpm(args, env)
    const flags = readFlags(args)
    for (const what of strangeVariables(env, VARIABLES))
      stderr.write(`petstore-server: warning: ${what}\n`)
    if (flags['help']) stdout.write(HELP)
    else if (flags['version']) stdout.write(`${VERSION}\n`)
    else if (flags['healthcheck']) await checkReadiness(readConfig(flags, env, ['host', 'port']))
    else await serve((settings) => readConfig(flags, env, settings), proc)
    return 0
  } catch (error) {
    stderr.write(`petstore-server: ${messageOf(error)}\n`)
    return hasCode(error, 'invalid_option') ? 2 : 1
  }
}

type ReadConfig = (settings?: readonly (keyof Config)[]) => Config

async function serve(read: ReadConfig, proc: Process): Promise<void> {
  const { stdout, stderr } = proc
  const isTTY = stdout.isTTY === true
  // First of all: the kernel drops signals for which process 1 of a container has no handler.
  const signals = signalsOf(proc, isTTY ? ['SIGINT', 'SIGTERM', 'SIGHUP'] : ['SIGINT', 'SIGTERM'])
  const hangups = signalsOf(proc, isTTY ? [] : ['SIGHUP'])
  const config = read()
  config.log ??= isTTY ? 'text' : 'json'
  const stopping = signals.next()
  const launched = await launchUnless(stopping, config, stdout)
  const { log, logReports } = launched
  logStart(launched)
  logReports()
  const endMinutes = logEachMinute(launched)
  void rereadKeys(launched, read, hangups)
  const crashed = once(proc, 'uncaughtException').then(([error]) => {
    throw new Error(`uncaught: ${inspect(error)}`)
  })
  // Greet last: callers may signal us once the URL is printed.
  const screen = config.log === 'json' ? stderr : stdout
  screen.write(greeting(launched, isTTY))
  const stopped = stopping.then((name) => stop(launched, config, name, signals.next()))
  try {
    await Promise.race([stopped, crashed])
    log.event('info', 'ends with exit status 0')
  } catch (error) {
    log.event('error', messageOf(error))
    log.event('info', 'ends with exit status 1')
    throw error
  } finally {
    endMinutes()
    await log.flush()
  }
}

interface Signals {
  /** The name of the next one, even if that came already. */
  next(): Promise<string>
}

function signalsOf(proc: Process, names: readonly string[]): Signals {
  const received = new EventEmitter()
  const queue = on(received, 'signal')
  for (const name of names) proc.on(name, () => received.emit('signal', name))
  return {
    async next() {
      const { value } = await queue.next()
      return String(value[0])
    },
  }
}

/** Launches the petstore. Throws if a signal comes first. */
async function launchUnless(
  stopping: Promise<string>,
  config: Config,
  logStream: Writable,
): Promise<Launched> {
  const launching = launchFrom(config, logStream)
  const winner = await Promise.race([launching, stopping])
  if (typeof winner !== 'string') return winner
  // run() exits, but a caller of main() goes on: close what is starting.
  launching.then(({ petstore }) => petstore.close()).catch(() => {})
  throw new Error(`${winner} received before the start was complete`)
}

/** The keys of the flags or the variable, and those of the file. */
function keysOf({ apiKeys = [], apiKeysFile = [] }: Config): string[] {
  return [...apiKeys, ...apiKeysFile]
}

async function launchFrom(config: Config, logStream: Writable): Promise<Launched> {
  // drain and drainDelay are no options: stop() uses them.
  const { apiKeys, apiKeysFile, demo, seed, drain, drainDelay, ...options } = config
  const keys = keysOf(config)
  const given = {
    ...options,
    // Only the controls show recorded requests. Undefined stands for the default.
    maxRequests: options.controlPort === undefined ? 0 : undefined,
    apiKeys: keys.length > 0 ? keys : undefined, // then one is generated
    pets: seed ?? (demo ? readInitialPets(`${import.meta.dirname}/demo.json`) : []),
    keepAlive: options.keepAlive * 1_000, // milliseconds
    logStream,
  }
  const launched = await launch(given).catch((error) => {
    const hint = hintFor(error, config)
    throw hint === '' ? error : new Error(messageOf(error) + hint, { cause: error })
  })
  await nextTurn() // so that a signal received meanwhile wins the race in serve()
  return launched
}

/** Names the flag of an address that cannot be listened on. */
function hintFor(error: unknown, config: Config): string {
  if (!hasMembers(error) || !hasCode(error, 'EADDRINUSE', 'EADDRNOTAVAIL', 'ENOTFOUND')) return ''
  const { code, port, hostname, address } = error
  if (code === 'EADDRINUSE') {
    const isOfControls = port === config.controlPort && port !== config.port
    return `; use another ${isOfControls ? '--control-port' : '--port'}`
  }
  const host = hostname ?? address
  const isOfControls = host === config.controlHost && host !== config.host
  return `; use another ${isOfControls ? '--control-host' : '--host'}`
}

/** Drains and closes the petstore. The second signal ends both waits. */
async function stop(
  launched: Launched,
  config: Config,
  signal: string,
  second: Promise<string>,
): Promise<void> {
  const { petstore, core, log } = launched
  const { drain, drainDelay } = config
  const began = performance.now()
  log.event('info', `${signal} received: ${waitOf(launched, config, signal)}`)
  core.context.state = 'draining'
  if (drainDelay > 0) {
    const delay = wait(drainDelay * 1_000, undefined, { ref: false })
    await Promise.race([delay, second])
  }
  second.then(() => petstore.close(0)).catch(() => {}) // the next line reports a failure
  const cutOff = await petstore.close(drain * 1_000)
  log.event('info', `stopped after ${((performance.now() - began) / 1_000).toFixed(1)} s`)
  if (cutOff > 0) throw new Error(`requests in flight that were cut off: ${cutOff}`)
}

/** What a stop waits for. */
function waitOf({ load }: Launched, { drain, drainDelay }: Config, signal: string): string {
  const { requests = 0, connections = 0 } = load?.() ?? {}
  const open = `open connections: ${connections}`
  if (drainDelay > 0) return `serves for ${drainDelay} s more; ${open}`
  if (requests === 0) return `no request is in flight; ${open}`
  const again = signal === 'SIGINT' ? 'Ctrl-C again' : 'another signal'
  const awaited = requests === 1 ? '1 request' : `${requests} requests`
  return `waits up to ${drain} s for ${awaited}; ${again} stops at once; ${open}`
}

async function checkReadiness({ host, port }: Config): Promise<void> {
  const url = `${reachableUrl(urlOf(host, port))}/readyz`
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
async function rereadKeys(launched: Launched, read: ReadConfig, hangups: Signals): Promise<void> {
  for (;;) {
    await hangups.next()
    onHangup(launched, read)
  }
}

function onHangup({ petstore, options, core, keyCores, log }: Launched, read: ReadConfig): void {
  const { size, bytes } = keyCores ?? core.context.store
  log.event('info', `SIGHUP received: ${size} pets take ${bytes} bytes of ${options.maxStore}`)
  try {
    const config = read(['apiKeys', 'apiKeysFile'])
    if (!config.apiKeysFile) return log.event('info', 'there is no file of API keys')
    const keys = keysOf(config)
    petstore.replaceKeys(keys)
    log.event('info', `the file of API keys was read again; valid keys: ${new Set(keys).size}`)
  } catch (error) {
    log.event('error', `the API keys stay as they were: ${messageOf(error)}`)
  }
}

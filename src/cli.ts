import { EventEmitter, on, once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { networkInterfaces } from 'node:os'
import type { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { inspect } from 'node:util'
import { readKeys, UsageError } from './command-line.ts'
import { messageOf } from './guards.ts'
import { hostInUrl, isLoopback } from './http/server.ts'
import { type Launched, launch } from './petstore.ts'
import { type Config, HELP, readCommand } from './settings.ts'

const VERSION = '1.0.0'

/** What the executable uses of its process. */
export interface Host extends EventEmitter {
  stdout: Writable & { isTTY?: boolean }
  stderr: Writable
}

/** Runs the executable with the arguments after the script; resolves to the exit status. */
export async function main(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  host: Host,
): Promise<number> {
  const { stdout, stderr } = host
  // A closed pipe must not crash the server.
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  try {
    const { action, config, warnings } = readCommand(args, env)
    for (const warning of warnings) await report(host, `warning: ${warning}`)
    if (action === 'serve') return await serve(config, host)
    if (action === 'healthcheck') await checkReadiness(config)
    else await print(stdout, action === 'help' ? HELP : `${VERSION}\n`)
    return 0
  } catch (error) {
    await report(host, messageOf(error))
    return error instanceof UsageError ? 2 : 1
  }
}

async function serve(given: Config, host: Host): Promise<number> {
  const { stdout, stderr } = host
  const config = { ...given, log: given.log ?? (stdout.isTTY ? 'text' : 'json') }
  // First of all: the kernel drops signals for which process 1 of a container has no handler.
  const nextSignal = stopSignals(host)
  const signal = nextSignal()
  const launching = launchAs(config, stdout)
  host.on('SIGHUP', () => {
    launching.then((launched) => rereadKeys(launched, config)).catch(() => {})
  })
  const launched = await Promise.race([launching, signal])
  if (typeof launched === 'string') {
    launching.then(({ petstore }) => petstore.close()).catch(() => {})
    throw new Error(`${launched} received before the start was complete`)
  }
  const crashed = once(host, 'uncaughtException').then(([error]: unknown[]) => {
    throw new Error(`uncaught: ${inspect(error)}`)
  })
  logStart(launched)
  // Greet last: callers may signal us once the URL is printed. Not awaited: stdout may never drain.
  void print(config.log === 'json' ? stderr : stdout, greeting(launched, config, host))
  const stopped = signal.then((name) => stop(launched, config, name, nextSignal))
  const failure = await Promise.race([stopped, crashed]).catch(messageOf)
  const status = failure === undefined ? 0 : 1
  const { log } = launched
  if (failure !== undefined) {
    log.event('error', failure)
    void report(host, failure) // not awaited either
  }
  log.event('info', `ends with exit status ${status}`)
  await log.flush()
  return status
}

function launchAs(config: Config, logStream: Writable): Promise<Launched> {
  const { apiKey = [], apiKeysFile, demo, seed, drain, drainDelay, ...options } = config
  const apiKeys = [...apiKey, ...(apiKeysFile?.keys ?? [])]
  return launch({
    ...options,
    journal: config.controlPort === undefined ? 0 : undefined,
    apiKeys: apiKeys.length > 0 ? apiKeys : undefined,
    pets: seed ?? demo,
    logStream,
  }).catch((error: NodeJS.ErrnoException & { port?: number }) => {
    if (error.code !== 'EADDRINUSE') throw error
    const flag = error.port === config.port ? '--port' : '--control-port'
    throw new Error(`${error.message}; choose another with ${flag}`)
  })
}

/** Gives SIGINT and SIGTERM in the order in which they come, and loses none. */
function stopSignals(host: Host): () => Promise<string> {
  const stops = new EventEmitter()
  const signals = on(stops, 'stop')
  for (const name of ['SIGINT', 'SIGTERM']) host.on(name, () => stops.emit('stop', name))
  return () => signals.next().then(({ value: [name] }) => name)
}

/** Each further signal ends a wait: the delay, then the drain. */
async function stop(
  { petstore, context, log }: Launched,
  { drain, drainDelay }: Config,
  signal: string,
  nextSignal: () => Promise<string>,
): Promise<void> {
  log.event('info', `${signal} received: --drain-delay ${drainDelay}, --drain ${drain}`)
  context.isDraining = true
  let further = nextSignal()
  if (drainDelay > 0) {
    const delay = wait(drainDelay * 1_000, 'over', { ref: false })
    if ((await Promise.race([delay, further])) !== 'over') further = nextSignal()
  }
  further.then(() => petstore.close(0)).catch(() => {}) // close(drain) rejects with it too
  const cutOff = await petstore.close(drain * 1_000)
  if (cutOff > 0) throw new Error(`requests in flight that were cut off: ${cutOff}`)
}

async function checkReadiness({ host, port }: Config): Promise<void> {
  const url = `http://${hostInUrl(host)}:${port}/readyz`
  try {
    if (port === 0) throw new Error('give the port in use, not port 0')
    // Not fetch, which refuses some ports.
    const request = get(url, { signal: AbortSignal.timeout(3_000) })
    const [response]: IncomingMessage[] = await once(request, 'response')
    if (response?.statusCode === 200) return
    throw new Error(`${response?.statusCode} ${response && (await text(response))}`)
  } catch (error) {
    throw new Error(`not ready: ${url}: ${messageOf(error)}`)
  }
}

function logStart(launched: Launched): void {
  const { petstore, options, context, stores, log, bound, boundControls } = launched
  const { apiKeys, snapshot = 'memory', maxStore, maxConnections } = options
  const { url, controlUrl } = petstore
  const server = `petstore-server ${VERSION}, process ${process.pid}, listens on ${bound}`
  const keys = stores?.isAnyKeyValid ? 'any' : apiKeys.length
  const place = stores ? 'each store' : snapshot
  const contents = `valid keys: ${keys}, pets in ${place}: ${context.store.size}`
  const limits = `--max-store ${maxStore}, --max-connections ${maxConnections}`
  log.event('info', `${server}: ${contents}, ${limits}`, { url, controlUrl })
  if (stores?.isAnyKeyValid && !isLoopback(bound))
    log.event('warn', `any key opens a store on ${bound}, and other machines may reach it`)
  if (boundControls === undefined || isLoopback(boundControls)) return
  const need = stores ? 'the key of a store' : 'no key'
  const controls = `the test controls on ${boundControls} need ${need}`
  log.event('warn', `${controls}, and other machines may reach them`)
}

/** On a terminal or with a generated key, also what to do next. */
function greeting(launched: Launched, config: Config, { stdout }: Host): string {
  const { petstore, context, stores, bound } = launched
  const { url, controlUrl, apiKey } = petstore
  const controls = controlUrl && `Its test controls listen on ${controlUrl}\n`
  const network = networkUrls(bound).map((one) => `On the network: ${one}\n`)
  const address = `Petstore ${VERSION} listens on ${url}\n${network.join('')}${controls ?? ''}`
  const isGenerated = (config.apiKey ?? config.apiKeysFile) === undefined
  if (!stdout.isTTY && !isGenerated) return address
  // The page makes up a key where any is valid.
  const path = isGenerated && !stores ? `/#key=${apiKey}` : '/'
  const page = `Open ${new URL(path, url)}\n\n`
  const generated = stores
    ? 'Each API key has a store of its own. Choose any of 8 to 256 characters, such as:'
    : `API key, generated and valid until it stops: ${apiKey}`
  const place = stores ? 'each store' : (config.snapshot ?? 'memory')
  return `${config.page === false ? '' : page}${address}
  ${isGenerated ? generated : 'With an API key in $KEY:'}

    curl -i -H "Authorization: Bearer ${isGenerated ? apiKey : '$KEY'}" ${url}/pets

Pets in ${place}: ${context.store.size}. Ctrl-C stops the server.
`
}

/** Where other machines reach a server that listens on all addresses. */
function networkUrls(bound: string): string[] {
  const { hostname } = new URL(bound)
  if (hostname !== '0.0.0.0' && hostname !== '[::]') return []
  const interfaces = Object.values(networkInterfaces()).flatMap((some = []) => some)
  const others = interfaces.filter(({ internal, family }) => !internal && family === 'IPv4')
  return others.map(({ address }) => new URL(bound.replace(hostname, address)).origin)
}

function rereadKeys(launched: Launched, { apiKey = [], apiKeysFile }: Config): void {
  const { petstore, options, context, stores, log } = launched
  const { size, bytes } = stores ?? context.store
  const what = stores ? 'stores' : 'pets'
  log.event('info', `SIGHUP received: ${size} ${what} take ${bytes} bytes of ${options.maxStore}`)
  if (apiKeysFile === undefined) return log.event('info', 'there is no file of API keys')
  try {
    const keys = [...apiKey, ...readKeys(apiKeysFile.path)]
    petstore.replaceKeys(keys)
    log.event('info', `the file of API keys was read again; valid keys: ${keys.length}`)
  } catch (error) {
    log.event('error', `the API keys stay as they were: the file ${messageOf(error)}`)
  }
}

function report({ stderr }: Host, line: string): Promise<void> {
  return print(stderr, `petstore-server: ${line}\n`)
}

function print(stream: Writable, text: string): Promise<void> {
  return new Promise((resolve) => stream.write(text, () => resolve()))
}

import { type EventEmitter, once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { pid } from 'node:process'
import type { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { hostInUrl } from './http/server.ts'
import { DEFAULTS } from './options.ts'
import { messageOf } from './pets/errors.ts'
import { type Launched, launch } from './petstore.ts'
import { type Config, HELP, readCommand, readKeysFile, UsageError } from './settings.ts'

const VERSION = '1.0.0'

export interface Host extends EventEmitter {
  stdout: Writable & { isTTY?: boolean }
  stderr: Writable
}

/** Runs the executable with the command line behind node and script; resolves to the exit status. */
export async function main(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  process: Host,
): Promise<number> {
  const { stdout, stderr } = process
  for (const stream of [stdout, stderr]) stream.on('error', () => {}) // a closed pipe must not crash the server
  try {
    const { action, config, unknown } = readCommand(args, env)
    for (const name of unknown) await print(stderr, `petstore-server: warning: unknown variable ${name}; see --help\n`)
    if (action === 'serve') return await serve(config, process)
    if (action === 'healthcheck') return await askWhetherReady(config, stderr)
    await print(stdout, action === 'help' ? HELP : `${VERSION}\n`)
    return 0
  } catch (error) {
    await print(stderr, `petstore-server: ${messageOf(error)}\n`)
    return error instanceof UsageError ? 2 : 1
  }
}

async function serve(config: Config, process: Host): Promise<number> {
  const { stdout, stderr } = process
  const { apiKey = [], apiKeysFile, demo, seed, drain, drainDelay, ...options } = config
  const { log: format = stdout.isTTY ? 'text' : 'json', controlPort } = options
  const keys = [...apiKey, ...(apiKeysFile?.keys ?? [])]
  const launching = launch({
    port: 8080,
    ...options,
    journal: controlPort === undefined ? 0 : undefined,
    apiKeys: keys.length > 0 ? keys : undefined,
    pets: seed ?? demo,
    log: format,
    logStream: stdout,
  })
  process.on('SIGHUP', () => void launching.then((launched) => rereadKeys(launched, config)).catch(() => {}))
  const stopped = stopOnSignal(launching, config, process)
  stopped.catch(() => {}) // of a start that fails after a signal, which rejects here too
  const launched = await launching
  const bug = once(process, 'uncaughtException').then(([error]) => `uncaught: ${error?.stack ?? error}`)
  logStart(launched, config, keys.length || 1)
  // Greet last: once the URL is printed, callers may signal us. Not awaited: stdout may never drain.
  void print(format === 'json' ? stderr : stdout, greeting(launched, config, keys.length === 0, stdout.isTTY))
  const failure = await Promise.race([stopped, bug]).catch(messageOf)
  const { log } = launched.petstore
  if (failure !== '') {
    log.event('error', failure)
    await print(stderr, `petstore-server: ${failure}\n`)
  }
  const status = failure === '' ? 0 : 1
  log.event('info', `ends with exit status ${status}`)
  await log.flush()
  return status
}

/** Asks the server at this address for /readyz; resolves to the exit status. */
async function askWhetherReady({ host = '127.0.0.1', port = 8080 }: Config, stderr: Writable): Promise<number> {
  const url = `http://${hostInUrl(host)}:${port}/readyz`
  try {
    if (port === 0) throw new Error('port 0 is not the one that the server picked: give that one')
    const request = get(url, { signal: AbortSignal.timeout(3_000) }) // not fetch, which refuses some ports
    const [response]: IncomingMessage[] = await once(request, 'response')
    if (response?.statusCode === 200) return 0
    throw new Error(`${response?.statusCode} ${response && (await text(response))}`)
  } catch (error) {
    await print(stderr, `petstore-server: not ready: ${url}: ${messageOf(error)}\n`)
    return 1
  }
}

function logStart({ petstore, bound, boundControls = '', pets }: Launched, config: Config, keys: number): void {
  const { snapshot = 'memory', maxStore, maxConnections } = { ...DEFAULTS, ...config }
  const what = `petstore-server ${VERSION}, process ${pid}, listens on ${bound}`
  const limits = `--max-store ${maxStore}, --max-connections ${maxConnections}`
  petstore.log.event('info', `${what}: valid keys: ${keys}, pets in ${snapshot}: ${pets}, ${limits}`)
  if (/^$|^http:\/\/(?:127\.|\[::1\])/.test(boundControls)) return
  petstore.log.event('warn', `the test controls on ${boundControls} need no key, and other machines may reach them`)
}

/** What to do next; where nobody reads it, and the key is known, the address is enough. */
function greeting({ petstore, pets }: Launched, config: Config, isGenerated: boolean, isTerminal = false): string {
  const { url, controlUrl, apiKey } = petstore
  const controls = controlUrl === undefined ? '' : `Its test controls, which need no key, listen on ${controlUrl}\n`
  const address = `Petstore ${VERSION} listens on ${url}\n${controls}`
  if (!isTerminal && !isGenerated) return address
  const page = config.page === false ? '' : `Open ${new URL(isGenerated ? `/#key=${apiKey}` : '/', url)}\n\n`
  const key = isGenerated ? `API key, generated and valid until it stops: ${apiKey}` : 'With an API key in $KEY:'
  const header = isGenerated ? `'Authorization: Bearer ${apiKey}'` : '"Authorization: Bearer $KEY"'
  return `${page}${address}
  ${key}

    curl -i -H ${header} ${url}/pets

Pets in ${config.snapshot ?? 'memory'}: ${pets}. Ctrl-C stops the server.
`
}

function rereadKeys({ petstore: { log, replaceKeys } }: Launched, { apiKey = [], apiKeysFile }: Config): void {
  if (apiKeysFile === undefined) return log.event('info', 'SIGHUP: there is no file of API keys to read again')
  try {
    const keys = [...apiKey, ...readKeysFile(apiKeysFile.path)]
    replaceKeys(keys)
    log.event('info', `the file of API keys was read again; valid keys: ${keys.length}`)
  } catch (error) {
    log.event('error', `the API keys stay as they were: the file ${messageOf(error)}`)
  }
}

// Listens for signals from the start: the kernel drops those that the first process of a container has no handler for.
// Each further one ends a wait: first the delay, if there is one, then the drain. Resolves to what went wrong.
async function stopOnSignal(launching: Promise<Launched>, config: Config, process: Host): Promise<string> {
  const { drain = 8, drainDelay = 0 } = config
  const [begin, delay, cut] = [new AbortController(), new AbortController(), new AbortController()]
  const waits = drainDelay > 0 ? [begin, delay, cut] : [begin, cut]
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => waits.shift()?.abort(signal))
  await once(begin.signal, 'abort')
  const { petstore, failReadyz } = await launching
  petstore.log.event('info', `${begin.signal.reason} received: --drain-delay ${drainDelay}, --drain ${drain}`)
  failReadyz()
  if (drainDelay > 0) await wait(drainDelay * 1000, undefined, { signal: delay.signal }).catch(() => {})
  cut.signal.addEventListener('abort', () => void petstore.close(0).catch(() => {}))
  const cutOff = await petstore.close(cut.signal.aborted ? 0 : drain)
  return cutOff === 0 ? '' : `requests in flight that were cut off: ${cutOff}`
}

function print(stream: Writable, text: string): Promise<void> {
  return new Promise((resolve) => stream.write(text, () => resolve()))
}

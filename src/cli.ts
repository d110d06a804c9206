import { get, type IncomingMessage } from 'node:http'
import type { Writable } from 'node:stream'
import { hostInUrl } from './http/server.ts'
import { DEMO_PETS } from './pets/demo.ts'
import { messageOf } from './pets/errors.ts'
import { startPetstore } from './petstore.ts'
import { type Config, HELP, readCommand, readKeysFile, unknownVariables, UsageError } from './settings.ts'
import type { Petstore } from './types.ts'

const VERSION = '1.0.0'
const HEALTHCHECK_TIMEOUT = 3_000

export interface Host {
  stdout: Writable & { isTTY?: boolean }
  stderr: Writable
  on(signal: NodeJS.Signals, listener: () => void): unknown
  on(event: 'uncaughtException', listener: (error: unknown) => void): unknown
}

/**
 * Runs the executable: prints what is asked for, or serves until a signal stops it.
 *
 * @param args The command line without node and script.
 * @returns The exit status: 0 for success, 1 for failure, 2 for bad usage.
 */
export async function main(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  process: Host,
): Promise<number> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {}) // a closed pipe must not crash the server
  try {
    const { action, config } = readCommand(args, env)
    for (const name of unknownVariables(env)) {
      await print(process.stderr, `petstore-server: warning: unknown variable ${name}; see --help\n`)
    }
    if (action === 'serve') return await serve(config, process)
    if (action === 'healthcheck') return await askWhetherReady(config, process.stderr)
    await print(process.stdout, action === 'help' ? HELP : `${VERSION}\n`)
    return 0
  } catch (error) {
    const isUsage = error instanceof UsageError
    await print(process.stderr, `petstore-server: ${messageOf(error)}\n`)
    return isUsage ? 2 : 1
  }
}

async function serve(config: Config, process: Host): Promise<number> {
  const { stdout, stderr } = process
  const { apiKey = [], apiKeysFile, demo, seed, drain = 8, log = stdout.isTTY ? 'text' : 'json', ...options } = config
  const keys = [...apiKey, ...(apiKeysFile?.keys ?? [])]
  const starting = startPetstore({
    port: 8080,
    ...options,
    journal: options.controlPort === undefined ? 0 : undefined,
    apiKeys: keys.length > 0 ? keys : undefined,
    pets: seed ?? (demo ? DEMO_PETS : []),
    log,
    logStream: stdout,
  })
  const stopped = stopOnSignal(starting, drain, process)
  const petstore = await starting
  if (log === 'json') petstore.log.event('info', `listening on ${petstore.url}`)
  if (apiKeysFile !== undefined) process.on('SIGHUP', () => rereadKeys(petstore, apiKey, apiKeysFile.path))
  const failed = failOnBug(petstore, process)
  // Greet last: once the URL is printed, callers may signal us. Not awaited: stdout may never drain.
  void print(log === 'json' ? stderr : stdout, greeting(petstore, keys.length === 0))
  return Promise.race([stopped, failed])
}

/** Asks the server at this address for /readyz; resolves to the exit status. */
async function askWhetherReady({ host = '127.0.0.1', port = 8080 }: Config, stderr: Writable): Promise<number> {
  const url = `http://${hostInUrl(host)}:${port}/readyz`
  let reason: string
  try {
    if (port === 0) throw new Error('port 0 is not the one that the server picked: give that one')
    // Not fetch, which refuses some ports.
    const signal = AbortSignal.timeout(HEALTHCHECK_TIMEOUT)
    const response = await new Promise<IncomingMessage>((resolve, reject) =>
      get(url, { signal }, resolve).on('error', reject),
    )
    if (response.statusCode === 200) return 0
    reason = `${response.statusCode} ${(await response.setEncoding('utf8').toArray()).join('')}`
  } catch (error) {
    reason = messageOf(error)
  }
  await print(stderr, `petstore-server: not ready: ${url}: ${reason}\n`)
  return 1
}

function greeting({ url, controlUrl, apiKey }: Petstore, isGenerated: boolean): string {
  const controls =
    controlUrl === undefined ? '' : `Its test controls, open to whoever can reach them, listen on ${controlUrl}\n`
  const address = `Petstore ${VERSION} listens on ${url}\n${controls}`
  if (!isGenerated) return address
  return `${address}
  API key, generated and valid until the server stops: ${apiKey}
  Try it:

    curl -i -H 'Authorization: Bearer ${apiKey}' ${url}/pets

`
}

function rereadKeys({ log, replaceKeys }: Petstore, apiKey: readonly string[], path: string): void {
  try {
    const keys = [...apiKey, ...readKeysFile(path)]
    replaceKeys(keys)
    log.event('info', `the file of API keys was read again; valid keys: ${keys.length}`)
  } catch (error) {
    log.event('error', `the API keys stay as they were: the file ${messageOf(error)}`)
  }
}

/**
 * Closes the petstore on SIGINT or SIGTERM, even one that comes during the start: the kernel drops signals that the first process
 * of a container has no handler for. A second signal does not wait for requests in flight.
 */
async function stopOnSignal(petstore: Promise<Petstore>, drain: number, process: Host): Promise<number> {
  const cutOff = await new Promise<number>((resolve, reject) => {
    let seconds = drain
    const stop = () => {
      const given = seconds
      void petstore.then(
        ({ close }) => close(given).then(resolve, reject),
        () => {},
      )
      seconds = 0
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
  })
  if (cutOff > 0) await print(process.stderr, `petstore-server: requests in flight that were cut off: ${cutOff}\n`)
  return cutOff > 0 ? 1 : 0
}

/** Logs an uncaught error. What was acknowledged is on disk; nothing else can be relied on. */
async function failOnBug({ log }: Petstore, process: Host): Promise<number> {
  const error = await new Promise<unknown>((resolve) => process.on('uncaughtException', resolve))
  const what = `uncaught: ${error instanceof Error ? error.stack : String(error)}`
  log.event('error', what)
  await Promise.all([log.flush(), print(process.stderr, `petstore-server: ${what}\n`)])
  return 1
}

function print(stream: Writable, text: string): Promise<void> {
  return new Promise((resolve) => stream.write(text, () => resolve()))
}

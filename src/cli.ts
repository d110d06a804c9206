import type { IncomingMessage } from 'node:http'
import { http } from './builtins.ts'
import { HELP, type Healthcheck, readConfig } from './config.ts'
import { generateApiKey } from './core.ts'
import type { LogStream } from './http/log.ts'
import { hostInUrl } from './http/server.ts'
import { DEMO_PETS } from './pets/demo.ts'
import { messageOf } from './pets/errors.ts'
import { type Petstore, startPetstore } from './petstore.ts'
import type { Config } from './settings.ts'
import { readKeysFile, UsageError } from './values.ts'
import { VERSION } from './version.ts'

const HEALTHCHECK_TIMEOUT = 3_000

/** What the executable uses of its process. */
export interface Surroundings {
  stdout: LogStream & { isTTY?: boolean }
  stderr: LogStream
  on(signal: NodeJS.Signals, listener: () => void): unknown
  on(event: 'uncaughtException', listener: (error: unknown) => void): unknown
}

/**
 * Runs the executable: prints what is asked for, or serves until a signal stops it.
 *
 * @param args The command line behind the script's name.
 * @returns The exit status: 0 for well, 1 for failed, 2 for badly used.
 */
export async function main(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
  process: Surroundings,
): Promise<number> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {}) // who stops reading stops nothing
  try {
    const config = readConfig(args, env)
    if (config === 'help') await print(process.stdout, HELP)
    else if (config === 'version') await print(process.stdout, `${VERSION}\n`)
    else if ('isHealthcheck' in config) return await askWhetherReady(config, process.stderr)
    else return await serve(config, process)
    return 0
  } catch (error) {
    const isUsage = error instanceof UsageError
    await print(process.stderr, `petstore: ${messageOf(error)}\n`)
    return isUsage ? 2 : 1
  }
}

async function serve(config: Config, process: Surroundings): Promise<number> {
  const { stdout, stderr } = process
  const { apiKey, apiKeysFile, demo, seed, drain, log = stdout.isTTY ? 'text' : 'json', ...options } = config
  const keys = [...apiKey, ...(apiKeysFile?.keys ?? [])]
  const starting = startPetstore({
    ...options,
    journal: options.controlPort === undefined ? 0 : undefined,
    apiKeys: keys.length > 0 ? keys : [generateApiKey()],
    pets: seed ?? (demo ? DEMO_PETS : []),
    log,
    logStream: stdout,
  })
  const stopped = stopOnSignal(starting, drain, process)
  const petstore = await starting
  if (log === 'json') petstore.log.event('info', `listening on ${petstore.url}`)
  if (apiKeysFile !== undefined) process.on('SIGHUP', () => rereadKeys(petstore, apiKey, apiKeysFile.path))
  const failed = failOnBug(petstore, process)
  // Last, for a signal may come as soon as the address can be read; and not awaited, for nobody may read it.
  void print(log === 'json' ? stderr : stdout, greeting(petstore, keys.length === 0))
  return Promise.race([stopped, failed])
}

/** Asks the server at this address for /readyz; resolves to the exit status. */
async function askWhetherReady({ host, port }: Healthcheck, stderr: LogStream): Promise<number> {
  const url = `http://${hostInUrl(host)}:${port}/readyz`
  let why: string
  try {
    if (port === 0) throw new Error('a server on port 0 has another one: give that')
    // Not by fetch, which refuses some ports.
    const signal = AbortSignal.timeout(HEALTHCHECK_TIMEOUT)
    const answer = await new Promise<IncomingMessage>((resolve, reject) =>
      http.get(url, { signal }, resolve).on('error', reject),
    )
    if (answer.statusCode === 200) return 0
    why = `${answer.statusCode} ${(await answer.setEncoding('utf8').toArray()).join('')}`
  } catch (error) {
    why = messageOf(error)
  }
  await print(stderr, `petstore: not ready: ${url}: ${why}\n`)
  return 1
}

function greeting({ url, controlUrl, apiKey }: Petstore, isGenerated: boolean): string {
  const controls =
    controlUrl === undefined ? '' : `Its test controls, for whoever can reach them, listen on ${controlUrl}\n`
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
 * Waits for SIGINT or SIGTERM, from now on, and closes the petstore; a second signal does not wait for what is in flight.
 * One that comes during the start counts too: the kernel drops what the first process of a container does not wait for.
 */
async function stopOnSignal(petstore: Promise<Petstore>, drain: number, process: Surroundings): Promise<number> {
  const cut = await new Promise<number>((resolve) => {
    let seconds = drain
    const stop = () => {
      const given = seconds
      void petstore.then(
        ({ close }) => resolve(close(given)),
        () => {},
      )
      seconds = 0
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
  })
  if (cut > 0) await print(process.stderr, `petstore: requests in flight that were cut off: ${cut}\n`)
  return cut > 0 ? 1 : 0
}

/** Waits for an error that nothing caught, and logs it. What was acknowledged is on disk; nothing else can be relied on. */
async function failOnBug({ log }: Petstore, process: Surroundings): Promise<number> {
  const error = await new Promise<unknown>((resolve) => process.on('uncaughtException', resolve))
  const what = `uncaught: ${error instanceof Error ? error.stack : String(error)}`
  log.event('error', what)
  await Promise.all([log.flush(), print(process.stderr, `petstore: ${what}\n`)])
  return 1
}

function print(stream: LogStream, text: string): Promise<void> {
  return new Promise((resolve) => stream.write(text, resolve))
}

import { helpText, readConfig } from './config.ts'
import type { LogStream } from './http/log.ts'
import { DEMO_PETS } from './pets/demo.ts'
import { messageOf } from './pets/errors.ts'
import { generateApiKey, type Petstore, type PetstoreOptions, startPetstore } from './petstore.ts'
import type { Config } from './settings.ts'
import { readKeysFile, UsageError } from './values.ts'

/** The version of the package, which is that of the interface too. */
export const VERSION = '1.0.0'

/** What the executable uses of its process. */
export interface Surroundings {
  stdout: LogStream & { isTTY?: boolean }
  stderr: LogStream
  on(signal: NodeJS.Signals, listener: () => void): unknown
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
    if (config === 'help') await print(process.stdout, helpText())
    else if (config === 'version') await print(process.stdout, `${VERSION}\n`)
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
  const { apiKey, apiKeysFile, demo, seed, drain, snapshot, log = stdout.isTTY ? 'text' : 'json', ...options } = config
  const keys = [...apiKey, ...(apiKeysFile?.keys ?? [])]
  const petstore = await start({
    ...options,
    ...(snapshot !== undefined && { snapshot }),
    apiKeys: keys.length > 0 ? keys : [generateApiKey()],
    pets: seed ?? (demo ? DEMO_PETS : []),
    log,
    logStream: stdout,
  })
  if (log === 'json') petstore.log.event('info', `listening on ${petstore.url}`)
  if (apiKeysFile !== undefined) process.on('SIGHUP', () => rereadKeys(petstore, apiKey, apiKeysFile.path))
  const stopped = stopOnSignal(petstore, drain, process)
  // Last, for a signal may come as soon as the address can be read; and not awaited, for nobody may read it.
  void print(log === 'json' ? stderr : stdout, greeting(petstore, keys.length === 0))
  const cut = await stopped
  if (cut > 0) await print(stderr, `petstore: requests in flight that were cut off: ${cut}\n`)
  return cut > 0 ? 1 : 0
}

async function start(options: PetstoreOptions): Promise<Petstore> {
  try {
    return await startPetstore(options)
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
    const why = 'code' in error && error.code === 'EADDRINUSE' ? 'the port is in use' : error.message
    throw new Error(`Cannot listen on ${options.host}:${options.port}: ${why}`)
  }
}

function greeting({ url, apiKey }: Petstore, isGenerated: boolean): string {
  const address = `Petstore ${VERSION} listens on ${url}\n`
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

/** Waits for SIGINT or SIGTERM and closes the store; a second signal does not wait for what is in flight. */
function stopOnSignal(petstore: Petstore, drain: number, process: Surroundings): Promise<number> {
  return new Promise((resolve) => {
    let seconds = drain
    const stop = () => {
      resolve(petstore.close(seconds))
      seconds = 0
    }
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop)
  })
}

function print(stream: LogStream, text: string): Promise<void> {
  return new Promise((resolve) => stream.write(text, resolve))
}

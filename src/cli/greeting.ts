import { readFileSync } from 'node:fs'
import { isLoopback, localAddresses, reachableUrl } from '../http/addresses.ts'
import type { Launched } from '../petstore/launch.ts'

export const VERSION = '1.0.0'

export function logStart(launched: Launched): void {
  const { petstore, options, keyring, log, bound = '', boundControls } = launched
  const { apiKeys, hasGeneratedKey, maxStore, maxConnections } = options
  const { url, controlUrl } = petstore
  const { isAnyKeyValid } = keyring
  const server = `petstore-server ${VERSION}, process ${process.pid}, listens on ${bound}`
  const count = hasGeneratedKey ? '1, generated' : new Set(apiKeys).size
  const keys = `valid keys: ${isAnyKeyValid ? 'any' : count}`
  const limits = `--max-store ${maxStore}, --max-connections ${maxConnections}`
  const line = `${server}: ${keys}, pets in ${petsIn(launched)}, ${limits}`
  log.event('info', line, { url, controlUrl })
  const warn = (what: string, at: string) => {
    if (!isLoopback(at)) log.event('warn', `other machines may reach ${what} at ${at}`)
  }
  if (isAnyKeyValid) warn('a store for any key', bound)
  if (boundControls) warn('the test controls', boundControls)
  warnOfOpenFiles(launched)
}

const OTHER_FILES = 50 // besides connections

function warnOfOpenFiles({ options, log }: Launched): void {
  const { maxConnections } = options
  const maximum = maxOpenFiles()
  if (maximum >= maxConnections + OTHER_FILES) return
  const needed = `--max-connections ${maxConnections} takes ${maxConnections + OTHER_FILES}`
  const beyond = 'beyond them the system closes connections, and a check once a minute says so'
  log.event('warn', `this process may open ${maximum} files, and ${needed}: ${beyond}`)
}

/** How many files this process may have open, sockets too, where the system tells. */
function maxOpenFiles(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Infinity)
  } catch {
    return Infinity
  }
}

function petsIn({ options, core, keyCores }: Launched): string {
  const place = keyCores ? 'each store' : (options.snapshot ?? 'memory')
  return `${place}: ${core.context.store.size}`
}

/** The addresses; on a terminal or with a generated key, also what to do next. */
export function greeting(launched: Launched, isTTY = false): string {
  const { petstore, options, keyring, keyCores, bound = '', boundControls = '' } = launched
  const { url, controlUrl, apiKey } = petstore
  const { hasGeneratedKey } = options
  let addresses = `Petstore ${VERSION} listens on ${url}\n`
  if (controlUrl) addresses += `Its test controls listen on ${controlUrl}\n`
  const network = networkUrls(bound)
  if (keyCores) {
    addresses += whiteboard(network.length > 0 ? network : [url], options.page)
  } else {
    for (const one of network) addresses += `On the network: ${one}\n`
  }
  for (const one of networkUrls(boundControls)) addresses += `Its controls on the network: ${one}\n`
  if (!isTTY && !hasGeneratedKey) return addresses
  const key = hasGeneratedKey ? apiKey : '$KEY'
  let keyLine = `With an API key in ${key}:`
  if (hasGeneratedKey) keyLine = `API key, generated and valid until it stops: ${key}`
  if (keyCores) keyLine = `Each API key has a store of its own. ${keyLine}`
  if (keyring.isAnyKeyValid) keyLine = `Any API key opens a store of its own, such as ${key}`
  // The page makes up a key where any is valid.
  const page = new URL(hasGeneratedKey && !keyCores ? `/#key=${key}` : '/', url)
  return `${options.page ? `Open ${page}\n\n` : ''}${addresses}
  ${keyLine}

    curl -i -H "Authorization: Bearer ${key}" ${url}/pets

Pets in ${petsIn(launched)}. Ctrl-C stops the server.
`
}

/** For the class: each address of the page, with that of the API next to it. */
function whiteboard(urls: readonly string[], hasPage: boolean): string {
  const lines = urls.map((url) => {
    const page = hasPage ? `${new URL('/', url)} (page), ` : ''
    return `On the whiteboard: ${page}${url} (API)\n`
  })
  if (urls.every(isLoopback)) {
    lines.push('Only this machine reaches it: --host 0.0.0.0 opens it to the network\n')
  }
  return lines.join('')
}

/** The URLs by which other machines reach what listens on all addresses. */
function networkUrls(bound: string): string[] {
  if (reachableUrl(bound) === bound) return [] // it listens on one address, or not at all
  const { hostname } = new URL(bound)
  const others = localAddresses().filter(({ internal }) => !internal)
  const ipv4 = others.filter(({ family }) => family === 'IPv4')
  if (ipv4.length > 0) return ipv4.map(({ address }) => bound.replace(hostname, address))
  const ipv6 = others.filter(({ address }) => hostname === '[::]' && !address.startsWith('fe80:'))
  return ipv6.map(({ address }) => bound.replace(hostname, `[${address}]`))
}

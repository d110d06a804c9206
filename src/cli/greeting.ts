import { isLoopback } from '../http/addresses.ts'
import { MemoryStore } from '../pets/memory-store.ts'
import type { Launched } from '../petstore.ts'

export const VERSION = '1.0.0'

/** The first line of the log. */
export function logStart(launched: Launched, hasGeneratedKey: boolean): void {
  const { petstore, options, keys, log, server } = launched
  const { host, basePath, maxStore, maxConnections } = options
  const { url, controlUrl } = petstore
  const who = `petstore-server ${VERSION}, process ${process.pid}`
  const count = `valid keys: ${keys.size}${hasGeneratedKey ? ', generated' : ''}`
  const maxBytes = options.store ? '' : `, --max-store ${maxStore}`
  const limits = `${maxBytes}, --max-connections ${maxConnections}`
  const what = `${count}, pets in ${petsIn(launched)}${limits}`
  log.event('info', `${who}, listens on ${server.boundUrl}${basePath}: ${what}`, {
    url,
    controlUrl,
  })
  if (controlUrl === undefined || isLoopback(host)) return
  log.event('warn', `other machines may reach the test controls, which need no key: ${controlUrl}`)
}

/** Where the pets are, and how many. */
function petsIn({ options, store }: Launched): string {
  if (!(store instanceof MemoryStore)) return 'a store of its own'
  return `${options.snapshot ?? 'memory'}: ${store.pets.size}`
}

/** The addresses; on a terminal or with a generated key, also what to do next. */
export function greeting(launched: Launched, hasGeneratedKey: boolean, isTTY: boolean): string {
  const { url, controlUrl, apiKey } = launched.petstore
  let text = `Petstore ${VERSION} listens on ${url}\n`
  if (controlUrl !== undefined) text += `Its test controls listen on ${controlUrl}\n`
  if (!isTTY && !hasGeneratedKey) return text
  const key = hasGeneratedKey ? apiKey : '$KEY'
  const page = new URL(hasGeneratedKey ? `/#key=${key}` : '/', url)
  const keyLine = hasGeneratedKey
    ? `API key, generated and valid until it stops: ${key}`
    : `With an API key in ${key}:`
  return `Open ${page}

${text}
  ${keyLine}

    curl -i -H "Authorization: Bearer ${key}" '${url}/pets'

Pets in ${petsIn(launched)}. Ctrl-C stops the server.
`
}

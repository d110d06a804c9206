import { getHeapStatistics } from 'node:v8'

/** The maximum of V8's old generation. Where a flag sets it, V8's figure adds the young one. */
export const HEAP_LIMIT: number = Math.min(getHeapStatistics().heap_size_limit, oldSpaceFlag())

function oldSpaceFlag(): number {
  const flags = `${process.env['NODE_OPTIONS']} ${process.execArgv.join(' ')}`
  const sizes = [...flags.matchAll(/--max[-_]old[-_]space[-_]size[= ](\d+)/g)]
  const [, megabytes = Infinity] = sizes.at(-1) ?? []
  return Number(megabytes) * 2 ** 20
}

export const MAX_HEADERS = 100

/** Bounds of a server, in bytes and milliseconds. */
export interface Limits {
  headerBytes: number // names and values of a header section, and the request target
  headersTimeout: number // from the first byte of a request to the end of its header section
  requestTimeout: number // from the first byte of a request to its last
  stallTimeout: number // without a byte either way; up to twice this for an unread response
  checkInterval: number // between two checks of the first two timeouts
  heldBytes: number // all that clients make the server hold: see Connections
  pipelined: number // requests that wait on one connection
  linger: number // how long a connection is drained after its last response
  drainInterval: number // without a request, after which idle connections close during a stop
}

export const LIMITS: Readonly<Limits> = {
  headerBytes: 16 * 2 ** 10,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  stallTimeout: 30_000,
  checkInterval: 1_000,
  heldBytes: Math.min(128 * 2 ** 20, HEAP_LIMIT / 4),
  pipelined: 100,
  linger: 2_000,
  drainInterval: 500,
}

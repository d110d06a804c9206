import { getHeapStatistics } from 'node:v8'

/** V8's heap limit. Where a flag sets it, without the young generation that V8 adds. */
export const HEAP_LIMIT: number = Math.min(getHeapStatistics().heap_size_limit, oldSpaceFlag())

function oldSpaceFlag(): number {
  const flags = [process.env['NODE_OPTIONS'], ...process.execArgv].join(' ')
  // The last one counts.
  const [, megabytes] = /.*--max[-_]old[-_]space[-_]size[= ](\d+)/s.exec(flags) ?? []
  return (Number(megabytes) || Infinity) * 2 ** 20 // 0 stands for the default
}

export const MAX_HEADERS = 100
const MAX_LENGTH = 16 * 2 ** 10 // of the names and values of all headers; of the target, too
const MAX_HEAD_LENGTH = MAX_LENGTH + 512 // of all these together: less than this, as in node

/** Whether a head exceeds these. The headers are names and values in turn. */
export function isHeadTooLarge(target: string, headers: readonly string[]): boolean {
  let length = 0
  for (const text of headers) length += text.length
  if (headers.length > 2 * MAX_HEADERS || target.length > MAX_LENGTH) return true
  return length > MAX_LENGTH || length + target.length >= MAX_HEAD_LENGTH
}

/** Bounds of a server, in bytes, milliseconds or requests. Those of node:http have its names. */
export class Limits {
  maxHeaderSize: number = MAX_HEAD_LENGTH
  // These two run on while a pipelined request is not read, because the one before it takes long.
  headersTimeout: number = 10_000 // from connecting, or from the first byte of a later request
  requestTimeout: number = 30_000 // from the first byte of a request to its last
  connectionsCheckingInterval: number = 1_000 // between two checks of these timeouts
  stallTimeout: number = 30_000 // in which a client reads nothing of a response
  maxHeldBytes: number = Math.min(128 * 2 ** 20, HEAP_LIMIT / 4) // see Connections
  maxPipelined: number = 100 // requests that wait on one connection
  linger: number = 2_000 // how long input is discarded after the last response
  idleCheckInterval: number = 500 // during a stop: after one without requests, idle ones close
}

export interface ServerOptions extends Limits {
  readonly maxConnections: number
  readonly keepAliveTimeout: number // milliseconds that an idle connection is kept
  readonly unref: boolean // whether it lets the process end
  readonly warn: (what: string) => void // counts each connection that is dropped
}

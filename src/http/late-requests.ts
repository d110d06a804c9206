import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Connections } from './connections.ts'

/**
 * The class of a server's requests. Node parses all that it has read from a socket, which may be
 * thousands of requests, even after the socket is destroyed: where hundreds of clients send so many
 * at once, they would not fit into the heap. So a request after its connection's last one claims to
 * be a CONNECT: up to Node 25, that stops the parser. From 26 on, node makes no responses for such
 * requests, and emits only the last of them. HttpServer ignores it.
 */
export function requestClass(connections: Connections): typeof IncomingMessage {
  class Request extends IncomingMessage {
    constructor(...args: [Socket]) {
      super(...args) // Bun passes more of them
      const [socket] = args
      // On Bun, the first request is made before the 'connection' event.
      const isEnding = connections.get(socket)?.isEnding ?? socket.destroyed
      if (!isEnding) return
      // node assigns both later; setters that do nothing keep these.
      Object.defineProperties(this, {
        upgrade: { get: () => true, set() {} },
        method: { get: () => 'CONNECT', set() {} },
      })
    }
  }
  // Nobody reads trailers, and nothing counts what they take while their request waits: keep none.
  Object.defineProperty(Request.prototype, 'rawTrailers', { get: () => [], set() {} })
  return Request
}

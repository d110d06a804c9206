import { connect, type Server, type Socket } from 'node:net'
import { platform } from 'node:process'
import { reachableAddress } from './addresses.ts'
import { nextTurn, setImmediate } from '../runtime.ts'

const MAX_ACCEPT_TURNS = 4_096 // what a backlog holds: a flooded listener stops, too
const MAX_CLAIM_TURNS = 1_000

type Handle = { listen?: (backlog: number) => void; getpeername?: (peer: object) => number }
type WithHandle<T> = T & { readonly _handle?: Handle | null } // undocumented

/**
 * Empties the backlog of a listener, because closing it resets the connections in there. Close it
 * in the same turn of the event loop.
 *
 * That a turn accepts nothing is not enough: the system connects clients until the very close. So
 * the backlog is shrunk to one place, and a connection of our own takes that. From then on, the
 * system ignores the handshakes of other clients, and refuses them when they try again.
 *
 * Where that is impossible, a client that connects just before the close is reset.
 */
export async function emptyBacklog(server: WithHandle<Server>): Promise<void> {
  await acceptAll(server)
  for (let turn = 0; turn < MAX_CLAIM_TURNS && platform === 'linux'; turn++) {
    const claim = await claimLastPlace(server)
    if (claim === 'claimed') return
    if (claim === 'impossible') break
    // The next turn accepts a connection first, which frees the place.
  }
  server._handle?.listen?.(0) // at most one more is connected
  await acceptAll(server)
}

/** Resolves in a turn of the event loop that has accepted no connection. */
async function acceptAll(server: Server): Promise<void> {
  let isQuiet = false
  const onConnection = () => {
    isQuiet = false
  }
  server.on('connection', onConnection)
  await nextTurn() // ends this turn; each later one accepts at least one connection
  for (let turn = 0; turn < MAX_ACCEPT_TURNS && !isQuiet; turn++) {
    isQuiet = true
    await nextTurn()
  }
  server.off('connection', onConnection)
}

/**
 * In the next turn of the event loop, shrinks the backlog, connects to the listener, disconnects.
 * Over loopback, each is done within the call. What has taken the place stays until it is accepted.
 */
async function claimLastPlace(
  server: WithHandle<Server>,
): Promise<'claimed' | 'taken' | 'impossible'> {
  const address = server.address()
  if (!address || typeof address === 'string') return 'impossible'
  const host = reachableAddress(address.address)
  const socket = await new Promise<WithHandle<Socket>>((resolve) => {
    // Node connects in a tick after the immediate, and before anything that awaits the promise.
    setImmediate(() => {
      // Not before: with a short backlog, the system may drop the end of a handshake, and then that
      // client believes that it is connected.
      server._handle?.listen?.(0)
      resolve(connect(address.port, host).on('error', () => {}))
    })
  })
  const status = socket._handle?.getpeername?.({}) // 0 once it is connected
  const hasFailed = socket.destroyed // there is no loopback, or no file descriptor
  socket.destroy()
  if (hasFailed || status === undefined) return 'impossible'
  return status === 0 ? 'claimed' : 'taken'
}

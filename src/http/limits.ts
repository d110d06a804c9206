/** Bounds on what a connection may ask for: bytes, and milliseconds. */
export interface Limits {
  /** Bytes of a request line and its header section together. */
  headerBytes: number
  /** From the first byte of a request to the end of its header section. */
  headersTimeout: number
  /** From the first byte of a request to its last. */
  requestTimeout: number
  /**
   * Without a byte either way while a request is in flight: who does not read its answer does not keep its connection. The time
   * begins at the second look, and as node takes the start of a long write for progress, such a client has up to twice of it.
   */
  stallTimeout: number
  /** Bytes of answers that wait for clients to read them, on all connections together. */
  held: number
  /** Requests that may wait on a connection behind an answer that has not left. */
  pipelined: number
  /** Between two looks at the three time-outs. */
  checkInterval: number
  /** How long a closed connection is still read, so that the client can read its answer. */
  linger: number
  /** The same while the server drains. */
  drainLinger: number
  /** Between two looks at idle connections while the server drains: they end when no request has come since the one before. */
  drainGrace: number
  /** How often they are left open because requests still come. */
  drainLooks: number
}

/** The limits that a server has unless told otherwise. */
export const LIMITS: Limits = {
  headerBytes: 16 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  stallTimeout: 30_000,
  held: 128 * 2 ** 20,
  pipelined: 1_000,
  checkInterval: 1_000,
  linger: 2_000,
  drainLinger: 100,
  drainGrace: 100,
  drainLooks: 10,
}

// prettier-ignore
type Limit =
  | 'headerBytes' | 'headersTimeout' | 'requestTimeout' | 'stallTimeout' | 'checkInterval' | 'unreadBytes' | 'pipelined'
  | 'linger' | 'drainInterval' | 'drainLooks'

/** Bounds on what a connection may ask for, in bytes and milliseconds. Read when a server is made; tests shorten them. */
export const LIMITS: Record<Limit, number> = {
  headerBytes: 16 * 1024, // names and values of a header section
  headersTimeout: 10_000, // from the first byte of a request to the end of its header section
  requestTimeout: 30_000, // from the first byte of a request to its last
  stallTimeout: 30_000, // without a byte either way; a response that is not read gets up to twice this
  checkInterval: 1_000, // between two checks of the first two timeouts
  unreadBytes: 128 * 2 ** 20, // of responses that wait for their clients, over all connections
  pipelined: 1_000, // requests that wait behind a response on one connection
  linger: 2_000, // that a connection is read after its last response, so that its client reads that
  drainInterval: 100, // between two looks at idle connections: they close if no request came since the one before …
  drainLooks: 10, // … or after so many looks
}

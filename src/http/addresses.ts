import { networkInterfaces } from 'node:os'

export function urlOf(address: string, port: number): string {
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`
}

/** The address by which this machine reaches a server that listens on an address. */
export function reachableAddress(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host !== '::') return host
  // IPv6 may be off, and a machine with IPv6 may have no IPv4.
  const own = Object.values(networkInterfaces()).flatMap((some) => some ?? [])
  return own.some(({ address }) => address === '::1') ? '::1' : '127.0.0.1'
}

/** Whether only this machine reaches a server that listens on an address. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost$|127\.|::1$|::ffff:127\.)/i.test(host)
}
